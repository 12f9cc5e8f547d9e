// Training in several processes, in one include beside mezzo.h.
#pragma once

#include "mezzo/dist/collectives.h"
#include "mezzo/dist/data_parallel.h"
#include "mezzo/dist/group.h"
#include "mezzo/dist/init.h"
#include "mezzo/dist/sharded_optimizer.h"
#include "mezzo/dist/sync_batch_norm.h"
