// Checkpoints, metrics and logging, in one include beside mezzo.h.
#pragma once

#include "mezzo/train/checkpoint.h"
#include "mezzo/train/checkpoint_manager.h"
#include "mezzo/train/csv_sink.h"
#include "mezzo/train/html_report.h"
#include "mezzo/train/json_lines_sink.h"
#include "mezzo/train/logger.h"
#include "mezzo/train/metrics.h"
#include "mezzo/train/progress_bar.h"
#include "mezzo/train/sink.h"
#include "mezzo/train/svg_plot.h"
#include "mezzo/train/tensorboard_sink.h"
#include "mezzo/train/throughput.h"
