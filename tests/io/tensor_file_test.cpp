// Tensors in files: every dtype, layout and device comes back to the same bits; files that do not fit are
// refused.
#include "mezzo/io/tensor_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/core/threads.h"
#include "mezzo/ops/ops.h"

namespace mezzo::io {
namespace {

class TensorFiles : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return (folder_ / "a.safetensors").string(); }
  /// The message with which `f` is refused.
  template <class E, class F>
  static std::string refusal(F f) {
    try {
      f();
    } catch (const E& error) {
      return error.what();
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("tensor_file_" + std::to_string(::getpid()));
};

void expect_equal(const Tensor& got, const Tensor& expected) {
  EXPECT_EQ(got.dtype(), expected.dtype());
  EXPECT_EQ(to_string(got.shape()), to_string(expected.shape()));
  EXPECT_EQ(got.to_vector<double>(), expected.to_vector<double>());
  EXPECT_FALSE(got.requires_grad());
}

TEST_F(TensorFiles, EveryDTypeComesBack) {
  TensorFile file;
  for (const DType dtype : kAllDTypes)
    file.tensors.emplace_back(to_string(dtype), tensor({0, 1, 3, 100}, {2, 2}).to(dtype));
  file.metadata["note"] = "two lines\nand \"quotes\"";
  file.save(path());
  const TensorFile loaded = TensorFile::load(path());
  EXPECT_EQ(loaded.metadata, file.metadata);
  ASSERT_EQ(loaded.tensors.size(), kDTypeCount);
  for (const auto& [name, tensor] : loaded.tensors) {
    EXPECT_EQ(tensor.dtype(), parse_dtype(name));
    expect_equal(tensor, file.with_prefix(name).front().second);
  }
  EXPECT_EQ(SafeTensors::open(path()).at("bf16").dtype, "BF16") << "as the format spells it";
  EXPECT_EQ(SafeTensors::open(path()).at("bool").dtype, "BOOL");
  EXPECT_EQ(SafeTensors::open(path()).at("f8_e4m3").dtype, "F8_E4M3");
  EXPECT_EQ(SafeTensors::open(path()).at("f8_e5m2").dtype, "F8_E5M2");
}

TEST_F(TensorFiles, EveryPatternOfFloat8ComesBack) {
  std::array<std::uint8_t, 256> patterns{};
  std::iota(patterns.begin(), patterns.end(), std::uint8_t{0});
  TensorFile::NamedTensors all{{"f32", ones({3})}};
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2}) {
    all.emplace_back(to_string(dtype), empty({16, 16}, dtype));
    std::memcpy(all.back().second.impl().data(), patterns.data(), patterns.size());
  }
  save(all, path());
  for (const bool mapped : {false, true}) {
    const TensorFile::NamedTensors loaded = load(path(), Device::cpu(), {.mapped = mapped});
    ASSERT_EQ(loaded.size(), 3U);
    for (std::size_t i = 1; i < 3; ++i) {
      EXPECT_EQ(loaded[i].second.dtype(), all[i].second.dtype());
      EXPECT_EQ(std::memcmp(loaded[i].second.impl().data(), patterns.data(), patterns.size()), 0);
    }
  }
}

TEST_F(TensorFiles, EveryLayoutAndDeviceComesBackRowMajor) {
  std::vector<Device> devices{Device::cpu()};
  if (cuda::is_available()) devices.push_back(Device::cuda());
  for (const Device device : devices) {
    const Tensor x = arange(24).to(DType::f32).to(device);
    const TensorFile::NamedTensors all{
        {"transposed", transpose(reshape(x, {4, 6}), 0, 1)}, {"part", narrow(x, 0, 5, 7)},
        {"expanded", expand(narrow(x, 0, 3, 1), {5})},       {"scalar", sum(x)},
        {"none", zeros({0, 3}, {.device = device})},         {"leaf", x.clone().requires_grad_()}};
    TensorFile file;
    file.add("x.", all);
    file.save(path());
    for (const Device to : devices) {
      const TensorFile loaded = TensorFile::load(path(), to);
      for (const auto& [name, tensor] : all) {
        const auto found = loaded.with_prefix("x." + name);
        ASSERT_EQ(found.size(), 1U) << name;
        EXPECT_EQ(found.front().first, "") << "the rest of the name";
        EXPECT_TRUE(found.front().second.device() == to);
        expect_equal(found.front().second, tensor);
      }
    }
  }
}

TEST_F(TensorFiles, PrefixesTellPartsApart) {
  TensorFile file;
  file.add("model.", {{"w", ones({1})}, {"b", ones({2})}});
  file.add("ema.", {{"w", ones({3})}});
  file.save(path());
  const TensorFile loaded = TensorFile::load(path());
  EXPECT_EQ(loaded.with_prefix("model.").size(), 2U);
  ASSERT_EQ(loaded.with_prefix("ema.").size(), 1U);
  EXPECT_EQ(loaded.with_prefix("ema.").front().first, "w");
  EXPECT_EQ(loaded.with_prefix("ema.").front().second.numel(), 3);
  EXPECT_EQ(loaded.with_prefix("").size(), 3U);
  EXPECT_TRUE(loaded.with_prefix("optimizer.").empty());
}

TEST_F(TensorFiles, WhatCannotBeWrittenLeavesTheFormerFile) {
  TensorFile good;
  good.add("", {{"w", ones({1})}});
  good.save(path());
  TensorFile undefined = good, twice = good;
  undefined.add("", {{"v", Tensor()}});
  twice.add("", {{"w", ones({1})}});
  EXPECT_NE(refusal<ValueError>([&] { undefined.save(path()); }).find("\"v\""), std::string::npos);
  EXPECT_NE(refusal<IoError>([&] { twice.save(path()); }).find("twice"), std::string::npos);
  EXPECT_EQ(TensorFile::load(path()).tensors.size(), 1U);
  refusal<IoError>([&] { good.save(path() + "/below"); });
  refusal<IoError>([&] { static_cast<void>(TensorFile::load(path() + ".not")); });
}

TEST_F(TensorFiles, TensorsThatMezzoDoesNotHaveAreRefused) {
  const std::vector<std::byte> bytes(8);
  const auto load = [&](const SafeTensors::Entry& entry) {
    write_safetensors(path(), {&entry, 1});
    return refusal<IoError>([&] { static_cast<void>(TensorFile::load(path())); });
  };
  const std::string dtype = load({"w", "C64", {1}, bytes});
  EXPECT_NE(dtype.find("got \"C64\" in tensor \"w\""), std::string::npos) << dtype;
  EXPECT_NE(dtype.find("BF16"), std::string::npos) << "lists what there is: " << dtype;
  const std::string dims = load({"w", "F32", {1, 1, 1, 1, 1, 1, 1, 1, 2}, bytes});
  EXPECT_NE(dims.find("expected at most 8 dims, got 9 in tensor \"w\""), std::string::npos) << dims;
}

TEST_F(TensorFiles, UnsignedIntegersBecomeWiderOnes) {
  const std::vector<std::uint16_t> u16{0, 1, 65535};
  const std::vector<std::uint32_t> u32{0, 1, 4294967295U};
  const std::vector<std::uint64_t> u64{0, 1, 9223372036854775807U}, beyond{std::uint64_t{1} << 63U};
  const std::vector<SafeTensors::Entry> entries{{"a", "U16", {3}, std::as_bytes(std::span(u16))},
                                                {"b", "U32", {3, 1}, std::as_bytes(std::span(u32))},
                                                {"c", "U64", {3}, std::as_bytes(std::span(u64))},
                                                {"d", "U64", {}, std::as_bytes(std::span(beyond))}};
  write_safetensors(path(), entries);
  for (const bool mapped : {false, true}) {
    const TensorFile file =
        TensorFile::load(path(), Device::cpu(), {.mapped = mapped, .names = {"a", "b", "c"}});
    ASSERT_EQ(file.tensors.size(), 3U);
    for (const auto& [name, x] : file.tensors) {
      EXPECT_EQ(x.dtype(), name == "a" ? DType::i32 : DType::i64) << name;
      EXPECT_EQ(x.shape(), name == "b" ? (Shape{3, 1}) : (Shape{3})) << name;
      const std::vector<std::int64_t> expected{0, 1,
                                               name == "a"   ? 65535
                                               : name == "b" ? 4294967295
                                                             : 9223372036854775807};
      EXPECT_EQ(x.to_vector<std::int64_t>(), expected) << name;
    }
    EXPECT_EQ(
        refusal<IoError>(
            [&] { static_cast<void>(TensorFile::load(path(), Device::cpu(), {.mapped = mapped})); }),
        "load tensors '" + path() +
            "': expected unsigned integers below 2^63, as i64 holds them, got 9223372036854775808 in tensor "
            "\"d\"; convert it before it is saved");
  }
}

TEST_F(TensorFiles, OnlyWhatIsAskedForIsRead) {
  const std::vector<std::byte> bytes(8);
  const std::vector<SafeTensors::Entry> entries{{"enc.w", "F32", {2}, bytes},
                                                {"enc.b", "F64", {}, bytes},
                                                {"odd", "C64", {}, bytes},
                                                {"dec.w", "I64", {}, bytes}};
  write_safetensors(path(), entries, {{"key", "value"}});
  const auto names = [this](const LoadOptions& options) {
    std::vector<std::string> found;
    for (const auto& [name, x] : load(path(), Device::cpu(), options)) found.push_back(name);
    std::sort(found.begin(), found.end());
    return found;
  };
  for (const bool mapped : {false, true}) {
    EXPECT_EQ(names({.mapped = mapped, .names = {"dec.w", "enc.b"}}),
              (std::vector<std::string>{"dec.w", "enc.b"}));
    EXPECT_EQ(names({.mapped = mapped, .prefix = "enc."}), (std::vector<std::string>{"enc.b", "enc.w"}));
    EXPECT_EQ(names({.mapped = mapped, .names = {"dec.w"}, .prefix = "enc."}).size(), 3U);
  }
  EXPECT_EQ(TensorFile::load(path(), Device::cpu(), {.names = {"dec.w"}}).metadata.at("key"), "value");
  EXPECT_NE(refusal<IoError>([&] {
              static_cast<void>(names({.names = {"odd"}}));
            }).find("\"C64\" in tensor \"odd\""),
            std::string::npos);
  const std::string op = "load tensors '" + path() + "': expected ";
  const std::string fix = "; check the names that are asked for";
  EXPECT_EQ(refusal<IoError>([&] { static_cast<void>(names({.names = {"model.enc.w"}})); }),
            op + "a tensor \"model.enc.w\", got none; the nearest name is \"enc.w\"" + fix);
  EXPECT_EQ(
      refusal<IoError>([&] { static_cast<void>(names({.prefix = "decoder."})); }),
      op + "tensors whose names begin with \"decoder.\", got none; the nearest name is \"dec.w\"" + fix);
}

TEST_F(TensorFiles, ABoolOfAnotherByteIsTrue) {
  const std::vector<std::byte> bytes{std::byte{0}, std::byte{1}, std::byte{2}, std::byte{255}};
  const SafeTensors::Entry entry{"b", "BOOL", {4}, bytes};
  write_safetensors(path(), {&entry, 1});
  for (const bool mapped : {false, true}) {
    const Tensor loaded = TensorFile::load(path(), Device::cpu(), {.mapped = mapped}).tensors.front().second;
    EXPECT_EQ(sum(loaded).item<std::int64_t>(), 3);
  }
}

/// All dtypes, sizes of 0 and no dims.
TensorFile some_tensors() {
  TensorFile file;
  for (const DType dtype : kAllDTypes) file.tensors.emplace_back(to_string(dtype), arange(7).to(dtype));
  file.tensors.emplace_back("none", zeros({0, 3}));
  file.tensors.emplace_back("scalar", full({}, 2.5));
  return file;
}

TEST_F(TensorFiles, MappedTensorsAreTheSame) {
  const TensorFile file = some_tensors();
  file.save(path());
  std::vector<Device> devices{Device::cpu()};
  if (cuda::is_available()) devices.push_back(Device::cuda());
  for (const Device device : devices) {
    const TensorFile loaded = TensorFile::load(path(), device, {.mapped = true});
    ASSERT_EQ(loaded.tensors.size(), file.tensors.size());
    for (const auto& [name, tensor] : loaded.tensors) {
      EXPECT_TRUE(tensor.device() == device);
      expect_equal(tensor, file.with_prefix(name).front().second);
    }
  }
  EXPECT_EQ(load(path(), Device::cpu(), {.mapped = true}).size(), file.tensors.size());
}

TEST_F(TensorFiles, MappedTensorsTakeNoMemoryAndAreWrittenToInCopies) {
  save({{"a", full({1000, 1000}, 3)}, {"b", full({1000}, 4)}}, path());
  const std::int64_t before = memory_stats(Device::cpu()).current;
  const TensorFile::NamedTensors mapped = load(path(), Device::cpu(), {.mapped = true});
  EXPECT_EQ(memory_stats(Device::cpu()).current, before);
  mapped[0].second.fill_(9);
  EXPECT_EQ(mapped[0].second.version(), 1U);
  EXPECT_EQ(mapped[1].second.version(), 0U);
  EXPECT_EQ(mapped[0].second.to_vector<int>()[999'999], 9);
  EXPECT_EQ(load(path())[0].second.to_vector<int>()[999'999], 3) << "the file stays as it is";
  save({{"w", full({1}, 5)}}, path());  // replaced: who has mapped the old one keeps it
  EXPECT_EQ(mapped[1].second.to_vector<int>(), std::vector<int>(1000, 4));
}

TEST_F(TensorFiles, MisalignedDataAreCopied) {
  // The header's length is no multiple of 4, and so are all offsets of the file.
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  ASSERT_NE((8 + header.size()) % 4, 0U);
  const float values[2] = {1.5F, -2.5F};
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  bytes += header + std::string(reinterpret_cast<const char*>(values), 8) + "abc";
  std::ofstream(path(), std::ios::binary) << bytes;
  for (const bool mapped : {false, true}) {
    const TensorFile::NamedTensors loaded = load(path(), Device::cpu(), {.mapped = mapped});
    EXPECT_EQ(loaded[0].second.to_vector<float>(), (std::vector<float>{1.5F, -2.5F}));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(loaded[0].second.impl().data()) % 4, 0U);
    EXPECT_EQ(loaded[1].second.to_vector<int>(), (std::vector<int>{'a', 'b', 'c'}));
  }
}

TEST_F(TensorFiles, LargeAndManyTensorsAreReadByAnyNumberOfThreads) {
  TensorFile file;
  file.add("", {{"large", arange(6'000'000).to(DType::f32)}});  // several parts of 8 MiB
  for (int i = 0; i < 300; ++i) file.add("", {{std::to_string(i), full({i}, i)}});
  file.save(path());
  const int before = get_num_threads();
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    const TensorFile loaded = TensorFile::load(path());
    EXPECT_TRUE(loaded.with_prefix("large").front().second.equal(file.tensors[0].second));
    for (const auto& [name, tensor] : loaded.tensors) {
      if (name == "large") continue;
      EXPECT_TRUE(tensor.equal(full({tensor.numel()}, std::stod(name)))) << name;
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace mezzo::io
