// Reading safetensors: files made by hand and by another program are read, and every rule of the format has a
// file that breaks it and is refused with the right words.
#include "mezzo/io/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "mezzo/core/error.h"
#include "mezzo/tests/io/safetensors_files.h"

namespace mezzo::io {
namespace {

namespace fs = std::filesystem;

/// A file whose only tensor is `tensor`, its JSON map, over `data`.
std::vector<std::byte> one_tensor(const std::string& tensor, std::string_view data) {
  return file_bytes("{\"t\":" + tensor + "}", data);
}

/// The same with the fields that most tests vary.
std::vector<std::byte> one_tensor(const std::string& dtype, const std::string& shape,
                                  const std::string& offsets, std::size_t data_size) {
  return one_tensor(R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}",
                    std::string(data_size, '\0'));
}

void expect_refused(std::vector<std::byte> bytes, const std::string& part) {
  const std::string message = refusal(std::move(bytes));
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(message.find("safetensors: expected "), 0U) << message;
}

TEST(SafeTensors, ReadsAFileMadeByHand) {
  const std::string header =
      R"({"__metadata__":{"z":"1","a":"2"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},)"
      R"("e":{"shape":[0,3],"data_offsets":[2,2],"dtype":"I64"},)"
      R"("s":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}}  )";
  const SafeTensors file = SafeTensors::from_bytes(
      file_bytes(header, std::string_view("\x80\x3f\x00\x00\x80\x3f\x00\x00\x00\xc0", 10)));
  EXPECT_EQ(file.metadata(), (Metadata{{"a", "2"}, {"z", "1"}}));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"w", "e", "s"}));
  EXPECT_TRUE(file.contains("w"));
  EXPECT_FALSE(file.contains("__metadata__"));
  EXPECT_EQ(file.at("w").dtype, "F32");
  EXPECT_EQ(file.at("w").shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(copy_as<float>(file.at("w")),
            (std::vector<float>{1.0F, -2.0F}));  // from an address that is not aligned
  EXPECT_EQ(copy_as<std::uint16_t>(file.at("s")), (std::vector<std::uint16_t>{0x3F80}));
  EXPECT_TRUE(file.at("s").shape.empty());
  EXPECT_TRUE(copy_as<std::int64_t>(file.at("e")).empty());
}

TEST(SafeTensors, ReadsFilesWithoutTensors) {
  EXPECT_TRUE(SafeTensors::from_bytes(file_bytes("{}", "")).entries().empty());
  EXPECT_EQ(SafeTensors::from_bytes(file_bytes(R"({"__metadata__":{"a":"b"}})", "")).metadata().size(), 1U);
}

TEST(SafeTensors, CopiesShareTheBytesAndOutliveTheOriginal) {
  const SafeTensors copy = [] {
    const SafeTensors file = SafeTensors::from_bytes(one_tensor("U8", "[3]", "[0,3]", 3));
    SafeTensors other = file;
    EXPECT_EQ(other.at("t").bytes.data(), file.at("t").bytes.data());
    return other;
  }();
  EXPECT_EQ(copy_as<std::uint8_t>(copy.at("t")), (std::vector<std::uint8_t>{0, 0, 0}));
}

TEST(SafeTensors, AMissingNameIsRefusedWithTheNamesThereAre) {
  const SafeTensors file = SafeTensors::from_bytes(one_tensor("U8", "[1]", "[0,1]", 1));
  try {
    static_cast<void>(file.at("w"));
    ADD_FAILURE();
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(), "safetensors: expected a tensor \"w\", got only \"t\"; check the name");
  }
}

TEST(SafeTensors, RefusesTruncatedPrefixAndHeader) {
  expect_refused({}, "expected at least 8 bytes, got a file of 0");
  expect_refused(std::vector<std::byte>(7), "expected at least 8 bytes, got a file of 7");
  expect_refused(file_bytes(3, "{}", ""), "expected a header within the file, got 3 bytes in a file of 10");
  expect_refused(file_bytes(100'000'001, "{}", ""),
                 "a header of at most 100000000 bytes, got a length of 100000001");
  expect_refused(file_bytes(~std::uint64_t{0}, "{}", ""), "got a length of 18446744073709551615");
  expect_refused(file_bytes(std::uint64_t{1} << 63U, "{}", ""), "got a length of 9223372036854775808");
}

TEST(SafeTensors, RefusesAHeaderThatIsNoMap) {
  expect_refused(file_bytes("", ""), "expected a header that begins with '{', got an empty header");
  expect_refused(file_bytes("[]", ""), "expected a header that begins with '{', got \"[\"");
  expect_refused(file_bytes(" {}", ""), "expected a header that begins with '{', got \" \"");
  expect_refused(file_bytes("{", ""), "JSON in the header");
  expect_refused(file_bytes("{}x", ""), "JSON in the header");
  expect_refused(file_bytes(std::string_view("{}\0", 3), ""), "a zero byte");
  expect_refused(file_bytes("{\"\xFF\":1}", ""), "JSON in the header");
  expect_refused(file_bytes("{\"a\":[[[[1]]]]}", ""), "at most 3 levels of lists and maps in the header");
}

TEST(SafeTensors, RefusesDuplicateKeys) {
  const std::string tensor = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  expect_refused(file_bytes("{\"a\":" + tensor + ",\"a\":" + tensor + "}", ""), "the key \"a\" twice");
  expect_refused(one_tensor(R"({"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]})", ""),
                 "the key \"dtype\" twice");
  expect_refused(file_bytes(R"({"__metadata__":{"k":"1","k":"2"}})", ""), "the key \"k\" twice");
}

TEST(SafeTensors, RefusesMetadataThatIsNotStrings) {
  expect_refused(file_bytes(R"({"__metadata__":[]})", ""), "expected __metadata__ to be a map, got list");
  EXPECT_TRUE(SafeTensors::from_bytes(file_bytes(R"({"__metadata__":null})", "")).metadata().empty());
  expect_refused(file_bytes(R"({"__metadata__":{"k":null}})", ""),
                 "expected strings in __metadata__, got null under \"k\"");
  expect_refused(file_bytes(R"({"__metadata__":null,"__metadata__":null})", ""), "twice");
  expect_refused(file_bytes(R"({"__metadata__":{"k":1}})", ""),
                 "expected strings in __metadata__, got int under \"k\"");
}

TEST(SafeTensors, RefusesFieldsThatAreMissingWrongOrUnknown) {
  expect_refused(one_tensor("7", ""), "expected a map for tensor \"t\", got 7");
  expect_refused(one_tensor(R"({"shape":[0],"data_offsets":[0,0]})", ""),
                 "dtype as a string in tensor \"t\", got nothing");
  expect_refused(one_tensor(R"({"dtype":1,"shape":[0],"data_offsets":[0,0]})", ""),
                 "dtype as a string in tensor \"t\", got 1");
  expect_refused(one_tensor(R"({"dtype":"U8","data_offsets":[0,0]})", ""), "got nothing");
  expect_refused(one_tensor(R"({"dtype":"U8","shape":[0]})", ""),
                 "expected data_offsets in tensor \"t\", got none");
  expect_refused(one_tensor(R"({"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1})", ""),
                 "expected only dtype, shape and data_offsets in tensor \"t\", got 4 fields");
}

TEST(SafeTensors, RefusesShapesThatAreNoSizes) {
  for (const std::string shape : {"3", "[-1]", "[1.0]", "[\"1\"]", "[null]", "[9223372036854775808]", "{}"}) {
    expect_refused(one_tensor("U8", shape, "[0,1]", 1),
                   "expected shape as a list of integers >= 0 in tensor \"t\"");
  }
}

TEST(SafeTensors, RefusesOffsetsThatAreNoRangeOfTheData) {
  for (const std::string offsets :
       {"0", "[0]", "[0,1,2]", "[-1,1]", "[0,1.5]", "[0,\"1\"]", "[0,18446744073709551615]"}) {
    expect_refused(one_tensor("U8", "[1]", offsets, 1),
                   "expected data_offsets as two integers >= 0 in tensor \"t\"");
  }
  expect_refused(one_tensor("U8", "[1]", "[1,0]", 1),
                 "data_offsets that begin before they end in tensor \"t\", got [1,0]");
  expect_refused(one_tensor("U8", "[2]", "[0,2]", 1),
                 "data_offsets within the 1 bytes of data in tensor \"t\", got [0,2]");
  expect_refused(one_tensor("U8", "[1]", "[9223372036854775806,9223372036854775807]", 1),
                 "within the 1 bytes of data");
}

TEST(SafeTensors, RefusesDataThatDoesNotFitDtypeAndShape) {
  expect_refused(one_tensor("F32", "[2]", "[0,7]", 7), "got 7 bytes for shape [2] of F32, which has 8");
  expect_refused(one_tensor("F32", "[2]", "[0,9]", 9), "got 9 bytes for shape [2] of F32, which has 8");
  expect_refused(one_tensor("F64", "[]", "[0,4]", 4), "got 4 bytes for shape [] of F64, which has 8");
  expect_refused(one_tensor("BOOL", "[0]", "[0,1]", 1), "got 1 bytes for shape [0] of BOOL, which has 0");
  expect_refused(one_tensor("F4", "[3]", "[0,2]", 2), "shape [3] of F4, which ends within a byte");
}

TEST(SafeTensors, RefusesShapesWhoseProductOverflows) {
  // 2^32 * 2^32 is 0 modulo 2^64, 2^58 * 64 bits as well: sizes that wrong arithmetic would accept.
  expect_refused(one_tensor("U8", "[4294967296,4294967296]", "[0,0]", 0), "whose product reaches 2^60");
  expect_refused(one_tensor("F64", "[288230376151711744]", "[0,0]", 0), "whose bits overflow 63 bits");
  expect_refused(one_tensor("U8", "[0,4294967296,4294967296]", "[0,0]", 0), "whose product reaches 2^60");
  expect_refused(one_tensor("U8", "[4294967296,4294967296,0]", "[0,0]", 0), "whose product reaches 2^60");
  expect_refused(one_tensor("FUTURE", "[4294967296,4294967296]", "[0,0]", 0), "whose product reaches 2^60");
  EXPECT_TRUE(SafeTensors::from_bytes(one_tensor("U8", "[0,4294967296]", "[0,0]", 0)).contains("t"));
}

TEST(SafeTensors, RefusesOverlapsHolesAndRests) {
  const auto two = [](const std::string& a, const std::string& b, std::size_t size) {
    return file_bytes(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + a +
                          R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}",
                      std::string(size, '\0'));
  };
  EXPECT_EQ(SafeTensors::from_bytes(two("[2,4]", "[0,2]", 4)).entries().size(), 2U);
  expect_refused(two("[0,2]", "[1,3]", 3),
                 "expected tensor \"b\" to begin at byte 2, got an overlap from byte 1");
  expect_refused(two("[0,2]", "[0,2]", 2), "got an overlap from byte 0");
  expect_refused(two("[0,2]", "[3,5]", 5),
                 "expected tensor \"b\" to begin at byte 2, got a hole up to byte 3");
  expect_refused(two("[1,3]", "[3,5]", 5),
                 "expected tensor \"a\" to begin at byte 0, got a hole up to byte 1");
  expect_refused(two("[0,2]", "[2,4]", 5),
                 "expected tensors up to the end of the file, got 1 bytes behind the last one");
  expect_refused(file_bytes("{}", "x"), "got 1 bytes behind the last one");
  const std::string empty_inside = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                   R"("e":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})";
  expect_refused(file_bytes(empty_inside, "ab"),
                 "expected tensor \"e\" to begin at byte 2, got an overlap from byte 1");
}

TEST(SafeTensors, EmptyTensorsMayBeginWhereOthersDo) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                             R"("e":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                             R"("f":{"dtype":"F64","shape":[0],"data_offsets":[2,2]}})";
  EXPECT_EQ(SafeTensors::from_bytes(file_bytes(header, "ab")).entries().size(), 3U);
}

TEST(SafeTensors, TakesDtypesItDoesNotKnowAsTheyAre) {
  const SafeTensors file = SafeTensors::from_bytes(one_tensor("FUTURE", "[3]", "[0,6]", 6));
  EXPECT_EQ(file.at("t").bytes.size(), 6U);
  EXPECT_EQ(copy_as<std::uint16_t>(file.at("t")).size(), 3U);
  EXPECT_THROW(static_cast<void>(copy_as<std::uint32_t>(file.at("t"))), IoError);
}

TEST(SafeTensors, KnowsTheSizesOfTheFormatsDtypes) {
  for (const char* dtype : {"F64", "I64", "U64", "C64"})
    EXPECT_EQ(safetensors_dtype_bits(dtype), 64) << dtype;
  for (const char* dtype : {"F32", "I32", "U32"}) EXPECT_EQ(safetensors_dtype_bits(dtype), 32) << dtype;
  for (const char* dtype : {"F16", "BF16", "I16", "U16"})
    EXPECT_EQ(safetensors_dtype_bits(dtype), 16) << dtype;
  for (const char* dtype :
       {"I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}) {
    EXPECT_EQ(safetensors_dtype_bits(dtype), 8) << dtype;
  }
  EXPECT_EQ(safetensors_dtype_bits("F6_E2M3"), 6);
  EXPECT_EQ(safetensors_dtype_bits("F6_E3M2"), 6);
  EXPECT_EQ(safetensors_dtype_bits("F4"), 4);
  EXPECT_EQ(safetensors_dtype_bits("f32"), std::nullopt);
}

TEST(SafeTensors, CopyingIntoElementsOfAnotherSizeIsRefused) {
  const SafeTensors file = SafeTensors::from_bytes(one_tensor("F32", "[2]", "[0,8]", 8));
  EXPECT_EQ(copy_as<std::uint32_t>(file.at("t")).size(), 2U);
  EXPECT_THROW(static_cast<void>(copy_as<double>(file.at("t"))), IoError);
  EXPECT_THROW(static_cast<void>(copy_as<std::uint8_t>(file.at("t"))), IoError);
}

TEST(SafeTensors, OpenRefusesAHugeFileOfAnotherKindWithoutReadingIt) {
  const std::string path = ::testing::TempDir() + "mezzo_st_" + std::to_string(::getpid()) + ".bin";
  std::ofstream(path) << "PK\x03\x04 a zip file";
  fs::resize_file(path,
                  std::uintmax_t{1} << 40U);  // sparse: takes no space, but a TiB of memory if it were read
  try {
    static_cast<void>(SafeTensors::open(path));
    ADD_FAILURE();
  } catch (const IoError& error) {
    EXPECT_EQ(std::string(error.what()),
              "safetensors '" + path +
                  "': expected a safetensors file, got a zip archive; io::load_torch "
                  "reads PyTorch's files, io::read_npz NumPy's");
  }
  fs::remove(path);
  EXPECT_THROW(static_cast<void>(SafeTensors::open(path)), IoError);
}

}  // namespace
}  // namespace mezzo::io
