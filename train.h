// Checkpoints, metrics and logging, in one include beside mezzo.h.
#pragma once

#include "mezzo/train/checkpoint.h"
#include "mezzo/train/checkpoint_manager.h"
