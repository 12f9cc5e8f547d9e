// The differentiable functions, all families.
#pragma once

#include "mezzo/ops/activation.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/cumulative.h"
#include "mezzo/ops/distance.h"
#include "mezzo/ops/elementary.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/loss.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/random.h"
#include "mezzo/ops/rearrange.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/ops/shape.h"
#include "mezzo/ops/softmax.h"
#include "mezzo/ops/tensor_product.h"
