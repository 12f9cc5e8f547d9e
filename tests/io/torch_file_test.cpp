// PyTorch's files: what torch.save wrote comes as tensors, plain and mapped, and what is saved has the form
// that torch.load reads.
#include "mezzo/io/torch_file.h"

#include <cstdlib>

#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"
#include "mezzo/io/detail/deflate.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/norm.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/io/temporary_folder.h"
#include "mezzo/tests/io/torch_files.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::io {
namespace {

using test::message_of;
using Kind = TorchValue::Kind;

/// Value 3 i - 5 at place i (counted() of make.py).
Tensor counted(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return reshape(arange(count) * 3 - 5, shape).to(DType::f32);
}

void expect_values(const Tensor& got, const Tensor& expected) {
  EXPECT_EQ(got.dtype(), expected.dtype());
  EXPECT_EQ(got.shape(), expected.shape());
  EXPECT_EQ(got.to_vector<double>(), expected.to_vector<double>());
  EXPECT_FALSE(got.requires_grad());
}

class TorchFile : public WithFolder {};

/// Each is loaded plain and mapped.
constexpr bool kWays[] = {false, true};

TEST_F(TorchFile, EveryDType) {
  std::vector<std::string> files{"dtypes.pt", "big_endian.pt"};
  if (detail::has_deflate()) files.emplace_back("deflated.pt");
  for (const std::string& file : files) {
    for (const bool mapped : kWays) {
      const TorchValue loaded = load_torch(made_by_python(file), Device::cpu(), {.mapped = mapped});
      ASSERT_EQ(loaded.size(), kDTypeCount);
      for (const DType dtype : kAllDTypes) {
        const Tensor x = loaded[to_string(dtype)].as_tensor();
        EXPECT_EQ(x.dtype(), dtype) << file;
        EXPECT_EQ(x.shape(), (Shape{2, 3}));
        const std::vector<int> values = dtype == DType::boolean ? std::vector<int>{0, 1, 0, 1, 0, 1}
                                        : dtype == DType::u8    ? std::vector<int>{251, 254, 1, 4, 7, 10}
                                                                : std::vector<int>{-5, -2, 1, 4, 7, 10};
        EXPECT_EQ(x.to_vector<int>(), values) << file << " " << to_string(dtype);
      }
    }
  }
}

TEST_F(TorchFile, EveryKindOfValue) {
  const TorchValue v = load_torch(made_by_python("values.pt"));
  EXPECT_TRUE(v["none"].is_none());
  EXPECT_TRUE(v["true"].as_bool());
  EXPECT_FALSE(v["false"].as_bool());
  const std::vector<std::pair<std::string, std::int64_t>> integers{
      {"small", 7},
      {"byte", 255},
      {"short", 65535},
      {"negative", -7},
      {"int", 2147483647},
      {"wide", -(1LL << 40)},
      {"widest", std::numeric_limits<std::int64_t>::max()}};
  for (const auto& [key, number] : integers) EXPECT_EQ(v[key].as_int(), number) << key;
  EXPECT_EQ(v["beyond"].as_double(), 0x1p64) << "what 64 bits do not hold is a float";
  EXPECT_EQ(v["float"].as_double(), 0.1);
  EXPECT_EQ(v["small"].as_double(), 7.0);
  EXPECT_EQ(v["string"].as_string(), "text \xC3\xA4");
  EXPECT_EQ(v["list"].kind(), Kind::list);
  EXPECT_EQ(v["list"][1][0].as_double(), 2.5);
  EXPECT_EQ(v["list"][2].kind(), Kind::tuple);
  EXPECT_EQ(v["list"][2].size(), 0U);
  EXPECT_EQ(v["tuple"].size(), 4U);
  EXPECT_EQ(v["size"][1].as_int(), 3);
  EXPECT_EQ(v["device"].as_string(), "cuda:0");
  EXPECT_EQ(v["cpu"].as_string(), "cpu");
  EXPECT_EQ(v["dtype"].as_string(), "torch.float16");
  EXPECT_EQ(v["ordered"].entry(0).first.as_string(), "b");
  EXPECT_EQ(v["ordered"].entry(1).second.as_int(), 2);
  EXPECT_EQ(v["counter"][3].as_int(), 2);
  EXPECT_EQ(v["set"][0].as_int(), 5);
  EXPECT_EQ(v[3].as_string(), "number");
  EXPECT_EQ(v["empty"].size(), 0U);
  EXPECT_TRUE(v.contains("none") && v.contains(3) && !v.contains("3") && !v.contains(4));
  EXPECT_TRUE(v.tensors().empty());
  EXPECT_TRUE(TorchValue().is_none() && TorchValue().tensors().empty());
}

TEST_F(TorchFile, LookUpsThatFailSayWhatThereIs) {
  const TorchValue v = load_torch(made_by_python("values.pt"));
  EXPECT_EQ(message_of<ValueError>([&] { return v["ordered"]["x"]; }),
            "TorchValue.at: expected the key \"x\", got only \"b\", \"a\"; check the name");
  EXPECT_EQ(message_of<ValueError>([&] { return v["empty"][7]; }),
            "TorchValue.at: expected the key 7, got an empty dict; check the name");
  EXPECT_EQ(message_of<IndexError>([&] { return v["tuple"][4]; }),
            "TorchValue.at: expected an index below 4, got 4");
  EXPECT_EQ(message_of<ValueError>([&] { return v["float"].as_int(); }),
            "TorchValue.as_int: expected int, got float; check the file's layout");
  EXPECT_EQ(message_of<ValueError>([&] { return v["list"]["x"]; }),
            "TorchValue.at: expected dict, got list; check the file's layout");
  EXPECT_THROW(static_cast<void>(v["list"][-1]), IndexError);
  EXPECT_THROW(static_cast<void>(v.entry(99)), IndexError);
  EXPECT_THROW(static_cast<void>(v["none"].as_tensor()), ValueError);
  EXPECT_THROW(static_cast<void>(TorchValue().size()), ValueError);
}

TEST_F(TorchFile, EveryLayoutAndSharedStorage) {
  const Tensor x = counted({4, 6});
  for (const bool mapped : kWays) {
    const TorchValue v = load_torch(made_by_python("views.pt"), Device::cpu(), {.mapped = mapped});
    expect_values(v["whole"].as_tensor(), x);
    expect_values(v["transposed"].as_tensor(), transpose(x, 0, 1));
    expect_values(v["part"].as_tensor(), narrow(narrow(x, 0, 1, 2), 1, 2, 3));
    expect_values(v["stepped"].as_tensor(), x.slice(1, 0, 6, 2));
    expect_values(v["expanded"].as_tensor(), full({5}, -5.0));
    expect_values(v["scalar"].as_tensor(), full({}, 2.5));
    expect_values(v["none"].as_tensor(), zeros({0, 3}));
    expect_values(v["parameter"].as_tensor(), counted({3}));
    expect_values(v["with_attribute"].as_tensor(), counted({2}));
    expect_values(v["channels_last"].as_tensor(), reshape(x, {1, 2, 3, 4}));
    EXPECT_TRUE(v["channels_last"].as_tensor().is_contiguous(MemoryFormat::channels_last));
    const Tensor first = v["tied"][0].as_tensor(), view = v["view"].as_tensor();
    EXPECT_TRUE(first.is_same(v["tied"][1].as_tensor()));
    EXPECT_TRUE(first.impl().storage == view.impl().storage);
    EXPECT_TRUE(first.impl().storage == v["frozen"].as_tensor().impl().storage);
    EXPECT_TRUE(v["whole"].as_tensor().impl().storage == v["part"].as_tensor().impl().storage);
    first.fill_(9);
    EXPECT_EQ(view.to_vector<int>(), (std::vector<int>{9, 9, 9, 9})) << "one memory";
  }
  expect_values(load_torch(made_by_python("views.pt"))["view"].as_tensor(), narrow(counted({5}), 0, 1, 4));
}

TEST_F(TorchFile, ATrainingsStateInEveryProtocol) {
  for (const char* file : {"training.pt", "training4.pt", "training5.pt"}) {
    const TorchValue v = load_torch(made_by_python(file));
    EXPECT_EQ(v["epoch"].as_int(), 3);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : v["model"].tensors()) names.push_back(name);
    EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean",
                                               "1.running_var", "1.num_batches_tracked"}));
    EXPECT_EQ(v["model"]["1.num_batches_tracked"].as_tensor().dtype(), DType::i64);
    const TorchValue first = v["optimizer"]["state"][0];
    EXPECT_EQ(first["step"].as_tensor().item(), 1);
    EXPECT_EQ(first["exp_avg"].as_tensor().to_vector<float>(), std::vector<float>(6, 0.1F));
    const TorchValue group = v["optimizer"]["param_groups"][0];
    EXPECT_EQ(group["lr"].as_double(), 0.5);
    EXPECT_EQ(group["betas"][1].as_double(), 0.999);
    EXPECT_EQ(group["params"].size(), 4U);
    const auto all = v.tensors();
    EXPECT_EQ(all.size(), 7U + 4 * 3);
    EXPECT_EQ(all[7].first, "optimizer.state.0.step");
  }
}

TEST_F(TorchFile, AModelTakesTheStateDict) {
  nn::Sequential net{nn::Linear(2, 3), nn::BatchNorm1d(3)};
  net.load_state_dict(load_torch(made_by_python("training.pt"))["model"].tensors());
  // Adam's first step of 0.5 went from the values that were set, but for rounding and eps.
  const Tensor expected = tensor({-1.75, -1.0, -0.25, 0.5, 1.25, 2.0}, {3, 2});
  EXPECT_TRUE(allclose(net.state_dict()[0].second, expected, 1e-6, 1e-6));
}

TEST_F(TorchFile, MappedTensorsAreWrittenToInCopies) {
  const std::string before = content_of(made_by_python("views.pt"));
  std::filesystem::copy_file(made_by_python("views.pt"), path("a.pt"));
  const TorchValue v = load_torch(path("a.pt"), Device::cpu(), {.mapped = true});
  std::filesystem::remove(path("a.pt"));  // the pages stay
  v["whole"].as_tensor().fill_(1);
  EXPECT_EQ(v["whole"].as_tensor().sum().item(), 24);
  expect_values(v["parameter"].as_tensor(), counted({3}));
  const TorchValue again = load_torch(made_by_python("views.pt"), Device::cpu(), {.mapped = true});
  again["whole"].as_tensor().fill_(1);
  EXPECT_EQ(content_of(made_by_python("views.pt")), before);
}

TEST_F(TorchFile, OnAnotherDevice) {
  if (!cuda::is_available()) GTEST_SKIP() << "no GPU";
  for (const bool mapped : kWays) {
    const TorchValue v = load_torch(made_by_python("views.pt"), Device::cuda(), {.mapped = mapped});
    expect_values(v["transposed"].as_tensor().cpu(), transpose(counted({4, 6}), 0, 1));
    EXPECT_TRUE(v["none"].as_tensor().device().is_cuda());
    EXPECT_TRUE(v["whole"].as_tensor().impl().storage == v["part"].as_tensor().impl().storage);
  }
}

TEST_F(TorchFile, OtherFilesAreRefused) {
  const auto refusal = [](const std::string& file) {
    const std::string message = message_of<IoError>([&] { return load_torch(made_by_python(file)); });
    const std::string op = "load_torch '" + made_by_python(file) + "': ";
    EXPECT_EQ(message.substr(0, op.size()), op);
    return message.substr(std::min(message.size(), op.size()));
  };
  const std::string expected = "expected a zip archive of torch.save, as PyTorch writes since 1.6, got ";
  EXPECT_EQ(message_of<IoError>([this] { return load_torch(written("a.pkl", pickle::begin() + "N.")); }),
            "load_torch '" + path("a.pkl") + "': " + expected +
                "a bare pickle or one of a very old torch.save; write it again with PyTorch: "
                "torch.save(torch.load(path), path)");
  EXPECT_EQ(refusal("script.pt"), expected +
                                      "a TorchScript archive; save its weights: "
                                      "torch.save(torch.jit.load(path).state_dict(), other_path)");
  EXPECT_EQ(refusal("arrays.npz"),
            expected + "a zip archive without data.pkl; check the path; io::read_npz reads NumPy's archives");
  EXPECT_EQ(refusal("make.py"),
            expected + "another kind of file; check the path; io::load reads safetensors");
  EXPECT_EQ(refusal("refused_module.pt"),
            "expected tensors, dicts, lists, numbers and strings, got a call of "
            "torch.nn.modules.activation.ReLU at "
            "byte 16 of data.pkl; save a state dict: torch.save(model.state_dict(), path)");
  EXPECT_EQ(
      refusal("refused_complex.pt"),
      "expected tensors of float32, float64, float16, bfloat16, float8_e4m3fn, float8_e5m2, int8 to int64, "
      "uint8 to uint64 or bool, got torch.complex64 in tensor \"x\"; convert it before it is saved, as "
      "tensor.to(torch.float32) does, or leave it out by .names or .prefix");
  EXPECT_EQ(refusal("refused_uint64.pt"),
            "expected unsigned integers below 2^63, as i64 holds them, got 9223372036854775808 in entry "
            "\"refused_uint64/data/0\"; convert it before it is saved");
  EXPECT_NE(refusal("refused_sparse.pt").find("got a call of torch._utils._rebuild_sparse_tensor"),
            std::string::npos);
  EXPECT_THROW(static_cast<void>(load_torch(path("absent.pt"))), IoError);
}

TEST_F(TorchFile, UnsignedIntegersBecomeWiderOnes) {
  for (const bool mapped : kWays) {
    const TorchValue v = load_torch(made_by_python("unsigned.pt"), Device::cpu(), {.mapped = mapped});
    EXPECT_EQ(v["u16"].as_tensor().dtype(), DType::i32);
    EXPECT_EQ(v["u16"].as_tensor().to_vector<int>(), (std::vector<int>{0, 1, 65535, 7}));
    EXPECT_EQ(v["view"].as_tensor().to_vector<int>(), (std::vector<int>{1, 7}));
    EXPECT_TRUE(v["view"].as_tensor().impl().storage == v["u16"].as_tensor().impl().storage);
    EXPECT_EQ(v["u32"].as_tensor().to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 4294967295}));
    EXPECT_EQ(v["u64"].as_tensor().to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 1, std::numeric_limits<std::int64_t>::max()}));
  }
}

TEST_F(TorchFile, OnlyWhatIsAskedForIsRead) {
  const auto load = [](const LoadOptions& options) {
    return load_torch(made_by_python("mixed.pt"), Device::cpu(), options);
  };
  EXPECT_THROW(static_cast<void>(load({})), IoError) << "it has a complex tensor";
  const TorchValue some = load({.names = {"net.bias"}});
  EXPECT_EQ(some.tensors().size(), 1U);
  expect_values(some["net"]["bias"].as_tensor(), counted({5}));
  EXPECT_TRUE(some["c"].is_none());
  EXPECT_TRUE(some["net"]["weight"].is_none());
  EXPECT_EQ(some["lr"].as_double(), 0.5);
  EXPECT_EQ(load({.prefix = "net."})["net"].tensors().size(), 2U);
  EXPECT_EQ(message_of<IoError>([&] { return load({.names = {"net.wieght"}}); }),
            "load_torch '" + made_by_python("mixed.pt") +
                "': expected a tensor \"net.wieght\", got none; the nearest name is \"net.weight\"; check "
                "the names "
                "that are asked for");
}

TEST_F(TorchFile, FilesFromBeforePyTorch16) {
  for (const bool mapped : kWays) {
    const auto load = [mapped](const std::string& file, LoadOptions options = {}) {
      options.mapped = mapped;
      return load_torch(made_by_python(file), Device::cpu(), options);
    };
    expect_values(load("legacy.pt").as_tensor(), counted({5}));
    expect_values(load("legacy4.pt")["x"].as_tensor(), counted({4, 6}));
    EXPECT_THROW(static_cast<void>(load("legacy_views.pt")), IoError) << "it has a complex tensor";
    LoadOptions options;
    options.names = {"part",      "transposed", "tied.0", "tied.1", "view",
                     "parameter", "half",       "flags",  "u16",    "none"};
    options.prefix = "training.";
    const TorchValue v = load("legacy_views.pt", options);
    const Tensor x = counted({4, 6});
    expect_values(v["part"].as_tensor(), narrow(narrow(x, 0, 1, 2), 1, 2, 3));
    expect_values(v["transposed"].as_tensor(), transpose(x, 0, 1));
    expect_values(v["half"].as_tensor(), x.to(DType::f16));
    expect_values(v["flags"].as_tensor(), gt(x, 0));
    expect_values(v["parameter"].as_tensor(), counted({3}));
    expect_values(v["none"].as_tensor(), zeros({0, 3}));
    EXPECT_EQ(v["u16"].as_tensor().to_vector<int>(), (std::vector<int>{1, 65535}));
    EXPECT_TRUE(v["view"].as_tensor().impl().storage == v["tied"][0].as_tensor().impl().storage);
    expect_values(v["training"]["model"]["1.running_var"].as_tensor(), ones({3}));
    EXPECT_EQ(v["training"]["optimizer"]["state"][0]["exp_avg"].as_tensor().to_vector<float>(),
              std::vector<float>(6, 0.1F));
    EXPECT_EQ(v["training"]["optimizer"]["param_groups"][0]["lr"].as_double(), 0.5);
  }
}

TEST_F(TorchFile, DamagedFilesFromBeforePyTorch16AreRefused) {
  const std::string good = content_of(made_by_python("legacy.pt"));
  const auto refusal = [this](const std::string& bytes) {
    return message_of<IoError>([&] { return load_torch(written("a.pt", bytes)); });
  };
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_NE(refusal(good.substr(0, length)), "") << length;
  const std::size_t count = good.size() - 5 * 4 - 8;
  std::string other = good;
  other[count] = 6;
  EXPECT_NE(refusal(other).find("expected 5 elements in storage"), std::string::npos) << refusal(other);
  other = good;
  other.replace(other.find("M\xE9\x03."), 4, "M\xE8\x03.");
  EXPECT_NE(refusal(other).find("expected version 1001"), std::string::npos) << refusal(other);
  other = good;
  other[other.rfind("X") + 5] ^= 1;  // the key in the list of storages
  EXPECT_NE(refusal(other).find("expected keys of storages of the value"), std::string::npos)
      << refusal(other);
  other = good;
  other.replace(other.find("FloatStorage"), 12, "DoubleStorag");
  EXPECT_NE(refusal(other).find("a call of torch.DoubleStorag at byte"), std::string::npos) << refusal(other);
  EXPECT_NE(refusal(other).find("of the fourth pickle"), std::string::npos);
}

class MadeTorchFile : public TorchFile {
 protected:
  /// What is refused of a file with a tensor on 4 floats in entry "0".
  [[nodiscard]] std::string refusal(const std::string& tensor,
                                    const std::map<std::string, std::string>& data = {
                                        {"0", std::string(16, '\0')}}) const {
    write_torch_archive(path("a.pt"), pickle::begin() + tensor + ".", data);
    for (const bool mapped : kWays) {
      try {
        static_cast<void>(load_torch(path("a.pt"), Device::cpu(), {.mapped = mapped}));
        return {};
      } catch (const IoError& error) {
        if (mapped) return "expected " + error.expected() + ", got " + error.got();
      }
    }
    return {};
  }
};

std::string tuple(std::initializer_list<std::int32_t> numbers) {
  std::string text = "(";
  for (const std::int32_t number : numbers) text += pickle::integer(number);
  return text + "t";
}

TEST_F(MadeTorchFile, ViewsMustLieWithinTheirStorage) {
  using namespace pickle;
  const std::string four = storage("FloatStorage", "0", 4);
  EXPECT_EQ(refusal(tensor(four, 0, tuple({2, 2}), tuple({2, 1}))), "");
  EXPECT_EQ(refusal(tensor(four, 3, tuple({1000000}), tuple({0}))), "") << "one element, repeated";
  EXPECT_EQ(refusal(tensor(four, 4, tuple({0, 7}), tuple({7, 1}))), "") << "no element";
  const std::string end = " in entry \"made/data/0\" of 4 elements";
  const std::string expected = "expected tensors within their storage, got shape ";
  EXPECT_EQ(refusal(tensor(four, 1, tuple({2, 2}), tuple({2, 1}))),
            expected + "[2, 2], strides [2, 1] and offset 1" + end);
  EXPECT_EQ(refusal(tensor(four, 4, tuple({}), tuple({}))), expected + "[], strides [] and offset 4" + end);
  EXPECT_EQ(refusal(tensor(four, 5, tuple({0}), tuple({1}))),
            expected + "[0], strides [1] and offset 5" + end);
  EXPECT_EQ(
      refusal(tensor(four, 0, tuple({2000000000, 2000000000}), tuple({0, 2000000000}))),
      "expected sizes and strides of a tensor of fewer than 2^60 elements, got [2000000000, 2000000000] and "
      "[0, 2000000000] at byte 149 of data.pkl");
  EXPECT_EQ(refusal(tensor(four, 0, tuple({2000000000}), tuple({2000000000}))),
            expected + "[2000000000], strides [2000000000] and offset 0" + end);
  EXPECT_NE(
      refusal(tensor(four, -1, tuple({1}), tuple({1}))).find("offset of a tensor from 0 to 2^60, got -1"),
      std::string::npos);
  EXPECT_NE(
      refusal(tensor(four, 0, tuple({1}), tuple({-1}))).find("stride of a tensor from 0 to 2^60, got -1"),
      std::string::npos);
  EXPECT_NE(refusal(tensor(four, 0, tuple({1, 1}), tuple({1}))).find("sizes and strides of a tensor"),
            std::string::npos);
  EXPECT_NE(
      refusal(tensor(four, 0, tuple({1, 1, 1, 1, 1, 1, 1, 1, 1}), tuple({1}))).find("at most 8 dims, got 9"),
      std::string::npos);
}

TEST_F(MadeTorchFile, StoragesMustBeThere) {
  using namespace pickle;
  const auto of = [](const std::string& type, const std::string& key, std::int32_t size) {
    return tensor(storage(type, key, size), 0, tuple({1}), tuple({1}));
  };
  EXPECT_EQ(refusal(of("FloatStorage", "1", 4)), "expected an entry \"made/data/1\", got none");
  EXPECT_EQ(refusal(of("FloatStorage", "0", 5)), "expected 20 bytes in entry \"made/data/0\", got 16");
  EXPECT_EQ(refusal(of("FloatStorage", "0", 2)), "expected 8 bytes in entry \"made/data/0\", got 16");
  EXPECT_EQ(refusal("(" + of("FloatStorage", "0", 4) + of("IntStorage", "0", 4) + "t"), "");
  EXPECT_EQ(refusal("(" + of("ByteStorage", "0", 16) + of("BoolStorage", "0", 16) + "t"),
            "expected one dtype for entry \"made/data/0\", got u8 and bool");
  write_torch_archive(path("a.pt"),
                      begin() + tensor(storage("BoolStorage", "0", 3), 0, tuple({3}), tuple({1})) + ".",
                      {{"0", std::string("\x00\x07\x01", 3)}});
  EXPECT_EQ(load_torch(path("a.pt")).as_tensor().to_vector<int>(), (std::vector<int>{0, 1, 1}));
}

TEST_F(TorchFile, WhatIsSavedComesBack) {
  TensorFile::NamedTensors all;
  for (const DType dtype : kAllDTypes) all.emplace_back(to_string(dtype), counted({2, 3}).abs().to(dtype));
  const Tensor shared = counted({5});
  all.emplace_back("tied", shared);
  all.emplace_back("tied.too", shared);
  all.emplace_back("handle", alias(shared, shared.shape(), shared.strides(), 0, false));
  all.emplace_back("part", narrow(shared, 0, 1, 3));
  all.emplace_back("transposed", transpose(counted({2, 3}), 0, 1));
  all.emplace_back("scalar", full({}, 2.5).requires_grad_());
  all.emplace_back("none", zeros({0, 3}));
  all.emplace_back("\xC3\xA4", counted({1}));
  save_torch(all, path("a.pt"));
  for (const bool mapped : kWays) {
    const auto loaded = load_torch(path("a.pt"), Device::cpu(), {.mapped = mapped}).tensors();
    ASSERT_EQ(loaded.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(loaded[i].first, all[i].first);
      expect_values(loaded[i].second, all[i].second.detach());
    }
    const auto storage = [&](std::size_t i) { return loaded[kDTypeCount + i].second.impl().storage; };
    EXPECT_TRUE(storage(0) == storage(1) && storage(0) == storage(2));
    EXPECT_FALSE(storage(0) == storage(3));
  }
  save_torch({}, path("none.pt"));
  EXPECT_EQ(load_torch(path("none.pt")).size(), 0U);
  EXPECT_THROW(save_torch({{"a", ones({1})}, {"a", ones({1})}}, path("a.pt")), IoError);
  EXPECT_THROW(save_torch({{"\xFF", ones({1})}}, path("a.pt")), IoError);
  EXPECT_THROW(save_torch({{"a", Tensor()}}, path("a.pt")), ValueError);
  EXPECT_EQ(load_torch(path("a.pt")).size(), all.size());
}

TEST_F(TorchFile, Float8IsWrittenAsPyTorchWritesIt) {
  // Its pickle of such a dict, without the memo, which mezzo does not write.
  using namespace pickle;
  const std::string storage = "(" + text("storage") + name("torch.storage", "UntypedStorage") + text("0") +
                              text("cpu") + integer(2) + "tQ";
  const std::string expected = begin() + "}(" + text("w") + name("torch._utils", "_rebuild_tensor_v3") + "(" +
                               storage + integer(0) + "(" + integer(2) + "t(" + integer(1) + "t\x89" +
                               name("collections", "OrderedDict") + ")R" + name("torch", "float8_e5m2") +
                               "tRu.";
  save_torch({{"w", tensor({1.0, -2.0}, DType::f8_e5m2)}}, path("a.pt"));
  detail::ZipReader archive(path("a.pt"), "test");
  const auto content = [&](const std::string& entry) {
    const detail::ZipEntry* const found = archive.find("archive/" + entry);
    std::string bytes(found->size, '\0');
    archive.open(*found)->read(std::as_writable_bytes(std::span(bytes)));
    return bytes;
  };
  EXPECT_EQ(content("data.pkl"), expected);
  EXPECT_EQ(content("data/0"), "\x3C\xC0");
}

TEST_F(TorchFile, PyTorchReadsWhatIsSaved) {
  const char* const python =
      std::getenv("MEZZO_TEST_PYTHON");  // one with PyTorch, in the project's own checks
  if (python == nullptr) GTEST_SKIP() << "no Python with PyTorch named by MEZZO_TEST_PYTHON";
  TensorFile::NamedTensors all;
  for (const DType dtype : kAllDTypes) all.emplace_back(to_string(dtype), (counted({2, 3}) + 5).to(dtype));
  all.emplace_back("tied", all[2].second);
  all.emplace_back("none", zeros({0, 3}));
  all.emplace_back("scalar", full({}, 2.5));
  save_torch(all, path("a.pt"));
  const std::string program = "import torch, zipfile; assert zipfile.ZipFile('" + path("a.pt") +
                              "').testzip() is None\n"
                              "for mmap in (False, True):\n"
                              " d = torch.load('" +
                              path("a.pt") +
                              "', weights_only=True, mmap=mmap)\n"
                              " n = dict(f16='float16', bf16='bfloat16', f32='float32', f64='float64', "
                              "i8='int8', i16='int16', i32='int32', "
                              "i64='int64', u8='uint8', bool='bool', f8_e4m3='float8_e4m3fn', "
                              "f8_e5m2='float8_e5m2')\n"
                              " want = (torch.arange(6).reshape(2, 3) * 3).float()\n"
                              " assert all(d[k].dtype == getattr(torch, v) and torch.equal(d[k].float(), "
                              "want.to(d[k].dtype).float()) for k, v in n.items())\n"
                              " assert list(d) == list(n) + ['tied', 'none', 'scalar'] and d['none'].shape "
                              "== (0, 3) and d['scalar'] == 2.5\n"
                              " assert d['tied'].data_ptr() == d['f32'].data_ptr()\n";
  const std::string script = written("check.py", program);
  EXPECT_EQ(std::system((std::string(python) + " " + script).c_str()), 0);
}

}  // namespace
}  // namespace mezzo::io
