// NumPy's files: arrays of NumPy are read, what is written has NumPy's bytes, and other files are refused.
#include "mezzo/io/npy.h"

#include "mezzo/core/error.h"
#include "mezzo/io/detail/deflate.h"
#include "mezzo/io/detail/zip.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/io/temporary_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::io {
namespace {

using test::message_of;

/// The bytes of an entry of an archive of ours.
std::string entry_of(const std::string& archive, const std::string& name) {
  detail::ZipReader reader(made_by_python(archive), "test");
  const detail::ZipEntry* const entry = reader.find(name + ".npy");
  EXPECT_NE(entry, nullptr) << name;
  std::string bytes(entry->size, '\0');
  reader.open(*entry)->read(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

/// Value 3 i - 5 at place i (counted() of make.py).
Tensor counted(const Shape& shape, DType dtype) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return reshape(arange(count) * 3 - 5, shape).to(dtype);
}

TensorFile::NamedTensors expected_arrays() {
  TensorFile::NamedTensors all;
  for (const char* name : {"f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8"})
    all.emplace_back(name, counted({2, 3}, parse_dtype(name)));
  all.back().second = tensor({251, 254, 1, 4, 7, 10}, {2, 3}, {.dtype = DType::u8});
  all.emplace_back("bool", tensor({0, 1, 0, 1, 0, 1}, {2, 3}).to(DType::boolean));
  all.emplace_back("scalar", counted({}, DType::f32));
  all.emplace_back("one", counted({7}, DType::f32));
  all.emplace_back("none", zeros({0, 3}));
  all.emplace_back("eight", counted({1, 2, 1, 3, 1, 2, 1, 2}, DType::f32));
  all.emplace_back("large", counted({1234, 3}, DType::f32));
  return all;
}

void expect_same(const TensorFile::NamedTensors& got, const TensorFile::NamedTensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].first, expected[i].first);
    EXPECT_EQ(got[i].second.dtype(), expected[i].second.dtype()) << got[i].first;
    EXPECT_EQ(got[i].second.shape(), expected[i].second.shape()) << got[i].first;
    EXPECT_TRUE(got[i].second.is_contiguous());
    EXPECT_EQ(got[i].second.to_vector<double>(), expected[i].second.to_vector<double>()) << got[i].first;
  }
}

class Npy : public WithFolder {
 protected:
  [[nodiscard]] std::string refusal(const std::string& bytes) const {
    const std::string message = message_of<IoError>([&, this] { return read_npy(written("a.npy", bytes)); });
    const std::string op = "read_npy '" + path("a.npy") + "': ";
    EXPECT_EQ(message.substr(0, op.size()), op);
    return message.substr(std::min(op.size(), message.size()));
  }
};

TEST_F(Npy, ArraysOfNumPy) {
  expect_same(read_npz(made_by_python("arrays.npz")), expected_arrays());
  if (detail::has_deflate()) expect_same(read_npz(made_by_python("packed.npz")), expected_arrays());
}

TEST_F(Npy, OtherFormsOfAnArrayAreTheSameTensor) {
  for (const char* name : {"fortran", "big", "version2", "version3", "big_fortran", "big_short"}) {
    const Tensor x = read_npy(written("a.npy", entry_of("forms.npz", name)));
    const DType dtype = name == std::string("big_fortran") ? DType::f64
                        : name == std::string("big_short") ? DType::i16
                                                           : DType::f32;
    expect_same({{name, x}}, {{name, counted({2, 3, 4}, dtype)}});
  }
}

TEST_F(Npy, WrittenFilesHaveNumPysBytes) {
  for (const auto& [name, tensor] : expected_arrays()) {
    write_npy(path("a.npy"), tensor);
    EXPECT_EQ(content_of(path("a.npy")), entry_of("arrays.npz", name)) << name;
    expect_same({{name, read_npy(path("a.npy"))}}, {{name, tensor}});
  }
  write_npy(path("a.npy"), transpose(counted({3, 2}, DType::f32), 0, 1).requires_grad_());
  expect_same({{"", read_npy(path("a.npy"))}},
              {{"", transpose(counted({3, 2}, DType::f32), 0, 1).contiguous()}});
}

TEST_F(Npy, ArchivesComeBack) {
  const TensorFile::NamedTensors all = expected_arrays();
  for (const bool compressed : {false, true}) {
    if (compressed && !detail::has_deflate()) continue;
    write_npz(path("a.npz"), all, {.compressed = compressed});
    expect_same(read_npz(path("a.npz")), all);
    const auto size = std::filesystem::file_size(path("a.npz"));
    EXPECT_EQ(compressed, size < std::filesystem::file_size(made_by_python("arrays.npz")) / 2) << size;
  }
  write_npz(path("none.npz"), {});
  EXPECT_TRUE(read_npz(path("none.npz")).empty());
}

TEST_F(Npy, DTypesThatMezzoDoesNotHaveAreRefusedByName) {
  const auto refused = [this](const std::string& name) { return refusal(entry_of("refused.npz", name)); };
  const std::string expected =
      "expected elements of dtype float16, float32, float64, int8 to int64, uint8 to uint64 or bool, got "
      "dtype ";
  EXPECT_EQ(refused("object"), expected +
                                   "\"|O\": Python objects, which are pickled and never read; save "
                                   "numbers: x.astype(numpy.float32)");
  EXPECT_EQ(refused("text"), expected + "\"<U2\": strings; save numbers, and the strings in a text file");
  EXPECT_EQ(refused("bytes"), expected + "\"|S2\": strings; save numbers, and the strings in a text file");
  EXPECT_EQ(refused("record"), expected +
                                   "of a structured array: raw or structured records; save each field "
                                   "as an array of its own");
  EXPECT_EQ(refused("raw"), expected +
                                "\"|V3\": raw or structured records; save each field as an array of its "
                                "own");
  EXPECT_EQ(refused("complex"), expected +
                                    "\"<c8\": complex numbers; save real and imaginary part as two "
                                    "arrays");
  EXPECT_EQ(refused("date"), expected + "\"<M8[D]\": dates or times; save x.astype(numpy.int64)");
  EXPECT_EQ(refused("long"), expected + "\"<f16\": another dtype; save x.astype(numpy.float32)");
  EXPECT_EQ(message_of<IoError>([] { return read_npz(made_by_python("refused.npz")); }),
            "read_npz '" + made_by_python("refused.npz") +
                "': expected elements of dtype float16, float32, float64, int8 to int64, uint8 to uint64 or "
                "bool in entry \"object.npy\", got dtype \"|O\": Python objects, which are pickled and never "
                "read; save numbers: x.astype(numpy.float32)");
}

TEST_F(Npy, UnsignedIntegersBecomeWiderOnes) {
  const LoadOptions options{.names = {"u2", "u4", "u8", "big"}};
  const TensorFile::NamedTensors read = read_npz(made_by_python("unsigned.npz"), options);
  expect_same(read, {{"u2", tensor({0, 1, 65535}, {3}, {.dtype = DType::i32})},
                     {"u4", tensor({0.0, 1.0, 4294967295.0}, {3}, {.dtype = DType::i64})},
                     {"u8", read[2].second},
                     {"big", tensor({0, 1, 65535}, {3}, {.dtype = DType::i32})}});
  EXPECT_EQ(read[2].second.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 1, std::numeric_limits<std::int64_t>::max()}));
  EXPECT_EQ(
      message_of<IoError>([] { return read_npz(made_by_python("unsigned.npz")); }),
      "read_npz '" + made_by_python("unsigned.npz") +
          "': expected unsigned integers below 2^63, as i64 holds them, got 9223372036854775808 in entry "
          "\"beyond.npy\"; convert it before it is saved");
}

TEST_F(Npy, OnlyWhatIsAskedForIsRead) {
  const auto read = [](const LoadOptions& options) {
    std::vector<std::string> names;
    for (const auto& [name, x] : read_npz(made_by_python("unsigned.npz"), options)) names.push_back(name);
    return names;
  };
  EXPECT_EQ(read({.names = {"x"}}), std::vector<std::string>{"x"});
  EXPECT_EQ(read({.prefix = "u"}), (std::vector<std::string>{"u2", "u4", "u8"}));
  EXPECT_EQ(read({.names = {"x"}, .prefix = "u"}), (std::vector<std::string>{"u2", "u4", "u8", "x"}));
  const std::string op = "read_npz '" + made_by_python("unsigned.npz") + "': expected ";
  EXPECT_EQ(message_of<IoError>([&] {
              return read({.names = {"x", "beyind"}});
            }),
            op + "a tensor \"beyind\", got none; the nearest name is \"beyond\"; check the names that are "
                 "asked for");
  EXPECT_EQ(message_of<IoError>([&] { return read({.prefix = "bigger."}); }),
            op + "tensors whose names begin with \"bigger.\", got none; the nearest name is \"big\"; check "
                 "the names "
                 "that are asked for");
}

/// A file of format 1.0 with this header and data.
std::string npy_bytes(const std::string& header, const std::string& data, char version = 1) {
  std::string bytes = std::string("\x93NUMPY") + version + '\0';
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + header + data;
}

TEST_F(Npy, HeadersAreReadStrictly) {
  const std::string data("\x01\x02", 2);
  const auto good = [&](const std::string& header) {
    const Tensor x = read_npy(written("a.npy", npy_bytes(header, data)));
    EXPECT_EQ(x.to_vector<int>(), (std::vector<int>{1, 2})) << header;
    EXPECT_EQ(x.shape(), (Shape{2})) << header;
  };
  good("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }  \n");
  good("{'shape':(2,),'descr':\"|u1\",'fortran_order':True}");
  good("{'descr': 'uint8', 'fortran_order': False, 'shape': (2,)}");  // a name, which NumPy takes, too
  good("{'descr': 'u1', 'fortran_order': False, 'shape': (2L,)}");    // of Python 2
  const auto bad = [&](const std::string& header) { return refusal(npy_bytes(header, data)); };
  const std::string expected = "expected a header {'descr': ..., 'fortran_order': ..., 'shape': ...}, got ";
  const std::string fix = " of it; write it with numpy.save";
  EXPECT_EQ(bad(""), expected + "its end at character 1" + fix);
  EXPECT_EQ(bad("{"), expected + "its end at character 2" + fix);
  EXPECT_EQ(bad("{}"), expected + "no key \"descr\" at character 3" + fix);
  EXPECT_EQ(bad("{'descr': '|u1', 'fortran_order': False}"),
            expected + "no key \"shape\" at character 41" + fix);
  EXPECT_EQ(bad("{'descr': '|u1', 'descr': '|u1'}"),
            expected + "the key \"descr\" twice at character 26" + fix);
  EXPECT_EQ(bad("{'order': 1}"), expected + "the key \"order\" at character 10" + fix);
  EXPECT_EQ(bad("{'descr': exec('x')}"), expected + "\"e\" at character 11" + fix);
  EXPECT_EQ(bad("{'descr': '|u\\x31'}"), expected + "\"\\\\\" at character 14" + fix);
  EXPECT_EQ(bad("{'fortran_order': None}"), expected + "\"N\" at character 19" + fix);
  EXPECT_EQ(bad("{'shape': (2)}"), expected + "\")\" at character 13" + fix);
  EXPECT_EQ(bad("{'shape': (2 3)}"), expected + "\"3\" at character 14" + fix);
  EXPECT_EQ(bad("{'shape': (-2,)}"), expected + "a size outside of 0 to 2^63 - 1 at character 12" + fix);
  EXPECT_EQ(bad("{'shape': (9223372036854775808,)}"),
            expected + "a size outside of 0 to 2^63 - 1 at character 12" + fix);
  EXPECT_EQ(bad("{'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}"),
            "expected at most 8 dims, got 9; reshape the array");
  EXPECT_EQ(
      bad("{'shape': (1073741824, 1073741824)}"),
      "expected a shape of fewer than 2^60 elements, got [1073741824, 1073741824]; write it with numpy.save");
  const std::string right = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_EQ(bad(right + "x"), expected + "more behind the dict at character 58" + fix);
  EXPECT_EQ(bad(right + std::string(1, '\0')), expected + "more behind the dict at character 58" + fix);
}

TEST_F(Npy, OtherFilesAreRefused) {
  const std::string right = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_EQ(refusal(""), "expected a .npy array, got a file of 0 bytes; write it with numpy.save");
  EXPECT_EQ(refusal("something else"), "expected a .npy array, got other bytes; write it with numpy.save");
  EXPECT_EQ(refusal(npy_bytes(right, "ab", 4)),
            "expected format 1.0, 2.0 or 3.0, got 4.0; write it with numpy.save");
  EXPECT_EQ(refusal(npy_bytes(std::string(10'001, ' '), "")),
            "expected a header of at most 10000 bytes, got 10001; write it with numpy.save");
  const std::string sizes = "expected 2 bytes behind the header, for shape [2], got ";
  EXPECT_EQ(refusal(npy_bytes(right, "a")), sizes + "1; fetch or write the file again");
  EXPECT_EQ(refusal(npy_bytes(right, "abc")), sizes + "3; fetch or write the file again");
  // 2^59 bytes are asked for by a file of 100: no memory is taken for them.
  EXPECT_NE(
      refusal(npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': (576460752303423488,), }", "a"))
          .find("expected 576460752303423488 bytes behind the header"),
      std::string::npos);
  const std::string whole = npy_bytes(right, "ab");
  for (std::size_t length = 8; length + 2 < whole.size(); ++length)
    EXPECT_NE(refusal(whole.substr(0, length)).find("got the end of the file"), std::string::npos) << length;
  EXPECT_THROW(static_cast<void>(read_npy(path("absent.npy"))), IoError);
}

TEST_F(Npy, BoolsAreZeroOrOne) {
  const Tensor x =
      read_npy(written("a.npy", npy_bytes("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }",
                                          std::string("\0\1\xFF", 3))));
  EXPECT_EQ(x.to_vector<int>(), (std::vector<int>{0, 1, 1}));
}

TEST_F(Npy, WhatCannotBeWrittenLeavesTheFormerFile) {
  write_npy(path("a.npy"), ones({2}));
  EXPECT_EQ(message_of<DTypeError>([&] {
              write_npy(path("a.npy"), ones({2}, {.dtype = DType::bf16}));
              return 0;
            }),
            "write_npy: expected a dtype that NumPy has, got bf16; convert it with .to(DType::f32)");
  EXPECT_EQ(message_of<DTypeError>([&] {
              write_npy(path("a.npy"), tensor({1.0, 2.0}, DType::f8_e4m3));
              return 0;
            }),
            "write_npy: expected a dtype that NumPy has, got f8_e4m3; convert it with .to(DType::f32)");
  EXPECT_EQ(message_of<DTypeError>([&] {
              write_npz(path("a.npy"), {{"w", ones({2}, {.dtype = DType::bf16})}});
              return 0;
            }),
            "write_npz \"w\": expected a dtype that NumPy has, got bf16; convert it with .to(DType::f32)");
  EXPECT_EQ(
      message_of<IoError>([&] {
        write_npz(path("a.npy"), {{"w", ones({2})}, {"v", ones({2})}, {"w", ones({2})}});
        return 0;
      }),
      "write_npz '" + path("a.npy") + "': expected distinct names, got \"w\" twice; rename one of them");
  EXPECT_THROW(write_npz(path("a.npy"), {{"w", Tensor()}}), ValueError);
  EXPECT_THROW(write_npz(path("a.npy"), {{"\xFF", ones({2})}}), IoError);
  EXPECT_EQ(read_npy(path("a.npy")).numel(), 2);
  EXPECT_EQ(file_count(), 1);
}

TEST_F(Npy, CompressedArchivesNeedZlib) {
  if (detail::has_deflate()) GTEST_SKIP() << "a build with zlib";
  EXPECT_NE(
      message_of<IoError>([] { return read_npz(made_by_python("packed.npz")); }).find("a build with zlib"),
      std::string::npos);
  EXPECT_THROW(write_npz(path("a.npz"), {{"w", ones({2})}}, {.compressed = true}), IoError);
  EXPECT_EQ(file_count(), 0);
}

}  // namespace
}  // namespace mezzo::io
