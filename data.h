// Data sets, loaders and transforms, in one include beside mezzo.h.
#pragma once

#include "mezzo/data/collate.h"
#include "mezzo/data/dataset.h"
#include "mezzo/data/example.h"
#include "mezzo/data/functional.h"
#include "mezzo/data/iterable.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/random.h"
#include "mezzo/data/sampler.h"
#include "mezzo/data/transforms.h"
