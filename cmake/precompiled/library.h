// What most sources of the library include, parsed once for all of them. A source goes on including what it
// uses: it must compile without this header (-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON).
#pragma once

#include "standard.h"

#include "mezzo/autograd/decomposed.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/pointwise/common.h"
#include "mezzo/ops/reduce/common.h"
