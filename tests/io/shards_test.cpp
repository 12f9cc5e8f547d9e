// Checkpoints in several files: Hugging Face's layout, all of it or an error of one line.
#include <gtest/gtest.h>

#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/io/tensor_file.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/io/temporary_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::io {
namespace {

using test::message_of;
namespace fs = std::filesystem;

class Shards : public WithFolder {
 protected:
  [[nodiscard]] std::string file() const { return path("m.safetensors"); }
  [[nodiscard]] std::string index() const { return path("m.safetensors.index.json"); }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(""))) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  [[nodiscard]] std::string refusal() const {
    const std::string message = message_of<IoError>([this] { return load(index()); });
    const std::string op = "load shards '" + index() + "': ";
    EXPECT_EQ(message.substr(0, op.size()), op);
    return message.substr(std::min(op.size(), message.size()));
  }
};

/// Five tensors of 40, 40, 40, 200 and 8 bytes.
TensorFile::NamedTensors five() {
  return {{"a", full({10}, 1)},
          {"b", full({10}, 2)},
          {"c", full({10}, 3)},
          {"d", full({50}, 4)},
          {"e", full({2}, 5)}};
}

void expect_five(const TensorFile::NamedTensors& got) {
  const auto expected = five();
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].first, expected[i].first);
    EXPECT_TRUE(got[i].second.equal(expected[i].second)) << got[i].first;
  }
}

TEST_F(Shards, LayoutAndIndex) {
  save(five(), file(), {.max_shard_size = 100});
  EXPECT_EQ(files(), (std::vector<std::string>{"m-00001-of-00004.safetensors", "m-00002-of-00004.safetensors",
                                               "m-00003-of-00004.safetensors", "m-00004-of-00004.safetensors",
                                               "m.safetensors.index.json"}));
  EXPECT_EQ(content_of(index()), R"({
  "metadata": {
    "total_size": 328
  },
  "weight_map": {
    "a": "m-00001-of-00004.safetensors",
    "b": "m-00001-of-00004.safetensors",
    "c": "m-00002-of-00004.safetensors",
    "d": "m-00003-of-00004.safetensors",
    "e": "m-00004-of-00004.safetensors"
  }
}
)");
  expect_five(load(index()));
  expect_five(load(file()));
  expect_five(load(index(), Device::cpu(), {.mapped = true}));
  EXPECT_EQ(load(path("m-00001-of-00004.safetensors")).size(), 2U) << "each is a file of its own";
}

TEST_F(Shards, WhatFitsIsOneFile) {
  save(five(), file(), {.max_shard_size = 328});
  EXPECT_EQ(files(), std::vector<std::string>{"m.safetensors"});
  expect_five(load(file()));
}

TEST_F(Shards, MetadataAreInEach) {
  TensorFile tensors{.tensors = five(), .metadata = {{"epoch", "3"}}};
  tensors.save(file(), {.max_shard_size = 1});
  EXPECT_EQ(TensorFile::load(path("m-00005-of-00005.safetensors")).metadata, tensors.metadata);
  EXPECT_EQ(TensorFile::load(file()).metadata, tensors.metadata);
}

TEST_F(Shards, WhatWasThereBeforeIsReplaced) {
  save({{"old", ones({1})}}, file());
  written("m-other.safetensors", "not a shard of ours");
  save(five(), file(), {.max_shard_size = 1});
  EXPECT_FALSE(fs::exists(file())) << "the path leads to what was saved last";
  save(five(), file(), {.max_shard_size = 100});
  EXPECT_EQ(files().size(), 6U) << "shards of the former index have gone, and nothing else";
  expect_five(load(file()));
  save({{"one", ones({1})}}, file());
  EXPECT_EQ(load(file()).front().first, "one");
}

TEST_F(Shards, AFailedSaveLeavesWhatWasThere) {
  save(five(), file(), {.max_shard_size = 100});
  const auto before = files();
  auto twice = five();
  twice.emplace_back("a", full({1}, 7));
  EXPECT_EQ(message_of<IoError>([&] {
              save(twice, file(), {.max_shard_size = 100});
              return 0;
            }),
            "write safetensors: expected distinct names, got \"a\" twice; rename one of them");
  EXPECT_THROW(save({{"a", Tensor()}}, file(), {.max_shard_size = 0}), ValueError);
  fs::permissions(path("m-00004-of-00004.safetensors"), fs::perms::owner_read);
  EXPECT_THROW(save(five(), file(), {.max_shard_size = 100}), IoError);
  EXPECT_EQ(files(), before);
  expect_five(load(index()));
  EXPECT_EQ(message_of<ValueError>([&] {
              save(five(), path("m.bin"), {.max_shard_size = 1});
              return 0;
            }),
            "TensorFile.save: expected a path that ends with .safetensors, for several files, got \"" +
                path("m.bin") + "\"; give the path such an end");
}

TEST_F(Shards, SetsThatDoNotFitTogetherAreRefused) {
  save(five(), file(), {.max_shard_size = 100});
  const std::string good = content_of(index());
  fs::rename(path("m-00003-of-00004.safetensors"), path("gone"));
  EXPECT_EQ(
      refusal(),
      "expected the 4 files of the index beside it, got no \"m-00003-of-00004.safetensors\"; fetch it too");
  save({{"d", ones({1})}, {"a", ones({1})}}, path("m-00003-of-00004.safetensors"));
  EXPECT_EQ(refusal(), "expected each tensor in one file, got \"a\" twice; fetch or write the files again");
}

TEST_F(Shards, TheIndexSaysWhichFilesAndNoMore) {
  const auto names = [this](const LoadOptions& options = {}) {
    std::string found;
    for (const auto& [name, x] : load(index(), Device::cpu(), options)) found += name;
    return found;
  };
  save(five(), file(), {.max_shard_size = 100});
  // As transformers' load_sharded_checkpoint: all tensors of all files that the index names.
  save({{"x", ones({1})}}, path("m-00003-of-00004.safetensors"));
  EXPECT_EQ(names(), "abcxe") << "x is not in the index, and d in no file";
  written("m.safetensors.index.json",
          R"({"weight_map": {"e": "m-00001-of-00004.safetensors", "a": "m-00004-of-00004.safetensors"}})");
  EXPECT_EQ(names(), "abe") << "each is in the other one's file, and b is in neither";
  EXPECT_EQ(names({.names = {"b", "e"}}), "be") << "of two files";
  EXPECT_EQ(message_of<IoError>([&] { return names({.names = {"d"}}); }).substr(0, 12), "load shards ");
}

TEST_F(Shards, OtherIndicesAreRefused) {
  const auto with = [this](const std::string& text) {
    written("m.safetensors.index.json", text);
    return refusal();
  };
  EXPECT_EQ(with("{}"), "expected a weight_map in the index, got none; check the path");
  EXPECT_EQ(with("[]"), "expected a weight_map in the index, got none; check the path");
  EXPECT_EQ(with(R"({"weight_map": 3})"), "expected a weight_map in the index, got int; check the path");
  for (const std::string name : {"../x", "/etc/passwd", "", ".", "..", "a/b"})
    EXPECT_EQ(with(R"({"weight_map": {"a": ")" + name + R"("}})"),
              "expected names of files beside the index in weight_map, got \"" + name +
                  "\" for \"a\"; write the index again");
  EXPECT_EQ(
      with(R"({"weight_map": {"a": 3}})"),
      "expected names of files beside the index in weight_map, got int for \"a\"; write the index again");
  written("m.safetensors.index.json", R"({"weight_map": {"a": "x", "a": "y"}})");
  EXPECT_NE(message_of<IoError>([this] { return load(index()); }).find("the key \"a\" twice"),
            std::string::npos);
  written("m.safetensors.index.json", R"({"weight_map": {}})");
  EXPECT_TRUE(load(index()).empty());
  EXPECT_THROW(static_cast<void>(load(path("absent.safetensors.index.json"))), IoError);
}

}  // namespace
}  // namespace mezzo::io
