// The runners, one per kind of golden. To add a kind, write its runner and name it in kinds.cpp.
#pragma once

#include <string>

#include "golden/case_file.h"
#include "golden/report.h"

namespace mezzo::golden {

// Runners of one case each: return when it passes, throw NotSupported or Mismatch (or let what mezzo throws
// pass) otherwise.
void run_op(const CaseFile& file, std::size_t index);
void run_convert(const CaseFile& file, std::size_t index);
void run_convert_f8(const CaseFile& file, std::size_t index);
void run_clip(const CaseFile& file, std::size_t index);
void run_unscale(const CaseFile& file, std::size_t index);
void run_scaler_steps(const CaseFile& file, std::size_t index);
void run_optimizer(const CaseFile& file, std::size_t index);
void run_model(const CaseFile& file, std::size_t index);
void run_scheduler(const CaseFile& file, std::size_t index);
void run_scaling_f8(const CaseFile& file, std::size_t index);
void run_linear_f8(const CaseFile& file, std::size_t index);
void run_split_masters(const CaseFile& file, std::size_t index);
void run_adamw_8bit(const CaseFile& file, std::size_t index);

// Runners of JSON files: each runs its cases through `report`.
void run_trajectories(const Value& content, Report& report);
void run_promotion(const Value& content, Report& report);
void run_autocast_table(const Value& content, Report& report);
void run_autocast_rules(const Value& content, Report& report);

/// Runs every case of a file, by its kind. Files that are no goldens (manifest.json) are left alone; a
/// malformed file is a failed case.
void run_file(const std::string& path, Report& report);

}  // namespace mezzo::golden
