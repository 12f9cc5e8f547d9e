// The fuzz targets: functions that take any bytes, feed a reader or an op with them, and end the program
// where that does anything else than succeed or throw. libFuzzer calls them (./mezzo.sh fuzz), and so does
// replay_test.cpp, in every build, with the stored corpus and mutations of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mezzo::fuzz {

// Each returns 0, which libFuzzer asks for.
int fuzz_json(const std::uint8_t* data, std::size_t size);  ///< parse_json; nlohmann_json says the same
int fuzz_safetensors(const std::uint8_t* data,
                     std::size_t size);                    ///< from memory and from a file; written again
int fuzz_idx(const std::uint8_t* data, std::size_t size);  ///< read_idx; written again
int fuzz_checkpoint(const std::uint8_t* data,
                    std::size_t size);  ///< a file resumed as examples/amp/resume.cpp does
int fuzz_state(const std::uint8_t* data, std::size_t size);  ///< scaler, optimizers, schedulers from JSON
int fuzz_op(const std::uint8_t* data, std::size_t size);     ///< calls by name, forward and backward
int fuzz_log(const std::uint8_t* data,
             std::size_t size);  ///< logs, plots and reports that a run goes on with

struct Target {
  std::string_view name;
  int (*run)(const std::uint8_t* data, std::size_t size);
};

inline constexpr std::array<Target, 7> kTargets{{{"json", fuzz_json},
                                                 {"safetensors", fuzz_safetensors},
                                                 {"idx", fuzz_idx},
                                                 {"checkpoint", fuzz_checkpoint},
                                                 {"state", fuzz_state},
                                                 {"op", fuzz_op},
                                                 {"log", fuzz_log}}};

}  // namespace mezzo::fuzz
