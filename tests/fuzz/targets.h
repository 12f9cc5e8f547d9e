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
                     std::size_t size);                      ///< from memory and from a file; written again
int fuzz_idx(const std::uint8_t* data, std::size_t size);    ///< read_idx; written again
int fuzz_npy(const std::uint8_t* data, std::size_t size);    ///< read_npy; written again
int fuzz_npz(const std::uint8_t* data, std::size_t size);    ///< read_npz; each entry alone
int fuzz_torch(const std::uint8_t* data, std::size_t size);  ///< load_torch, plain and mapped; bare pickles
int fuzz_checkpoint(const std::uint8_t* data,
                    std::size_t size);                       ///< a file loaded part by part
int fuzz_state(const std::uint8_t* data, std::size_t size);  ///< scaler, optimizers, schedulers from JSON
int fuzz_op(const std::uint8_t* data, std::size_t size);     ///< calls by name, forward and backward
int fuzz_csv(const std::uint8_t* data, std::size_t size);    ///< read_csv; a plain reader says the same
int fuzz_bpe(const std::uint8_t* data, std::size_t size);    ///< GPT2Tokenizer; a plain encoder says the same
int fuzz_image(const std::uint8_t* data, std::size_t size);  ///< PNG and JPEG; written as PNG
int fuzz_cifar(const std::uint8_t* data, std::size_t size);  ///< CIFAR10, CIFAR100; written again
int fuzz_token_file(const std::uint8_t* data, std::size_t size);  ///< TokenFile; its windows
int fuzz_log(const std::uint8_t* data,
             std::size_t size);  ///< logs that a resumed run reads

struct Target {
  std::string_view name;
  int (*run)(const std::uint8_t* data, std::size_t size);
};

inline constexpr std::array<Target, 15> kTargets{{{"json", fuzz_json},
                                                  {"safetensors", fuzz_safetensors},
                                                  {"idx", fuzz_idx},
                                                  {"npy", fuzz_npy},
                                                  {"npz", fuzz_npz},
                                                  {"torch", fuzz_torch},
                                                  {"csv", fuzz_csv},
                                                  {"bpe", fuzz_bpe},
                                                  {"image", fuzz_image},
                                                  {"cifar", fuzz_cifar},
                                                  {"token_file", fuzz_token_file},
                                                  {"log", fuzz_log},
                                                  {"checkpoint", fuzz_checkpoint},
                                                  {"state", fuzz_state},
                                                  {"op", fuzz_op}}};

}  // namespace mezzo::fuzz
