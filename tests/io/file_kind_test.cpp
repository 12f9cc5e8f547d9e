// Files that are not what they were taken for: every reader says what they are and what to do.
#include "mezzo/io/detail/file_kind.h"

#include "mezzo/core/error.h"
#include "mezzo/io/idx.h"
#include "mezzo/io/json.h"
#include "mezzo/io/npy.h"
#include "mezzo/io/tensor_file.h"
#include "mezzo/io/torch_file.h"
#include "mezzo/tests/io/temporary_folder.h"
#include "mezzo/tests/io/torch_files.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::io {
namespace {

using test::message_of;

class FileKinds : public WithFolder {
 protected:
  /// What the five readers of tensors say to a file of these bytes, without the op and the path.
  [[nodiscard]] std::vector<std::string> refusals(const std::string& bytes) const {
    const std::string file = written("file", bytes);
    std::vector<std::string> messages{message_of<IoError>([&] { return load(file); }),
                                      message_of<IoError>([&] { return load_torch(file); }),
                                      message_of<IoError>([&] { return read_npz(file); }),
                                      message_of<IoError>([&] { return read_npy(file); }),
                                      message_of<IoError>([&] { return read_idx(file); })};
    for (std::string& message : messages) message = message.substr(message.find("': ") + 3);
    return messages;
  }
  static std::vector<std::string> expected(const std::string& rest) {
    std::vector<std::string> messages;
    for (const char* format :
         {"a safetensors file", "a file of torch.save", "a zip archive", "a .npy array", "an IDX file"})
      messages.push_back("expected " + std::string(format) + ", got " + rest);
    return messages;
  }
};

TEST_F(FileKinds, APointerOfGitLfs) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid "
      "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5"
      "e2ca24d17e2393\nsize 12345\n";
  const std::string rest = "a Git LFS pointer, which stands for the file; fetch the file: git lfs pull";
  EXPECT_EQ(refusals(pointer), expected(rest));
  EXPECT_EQ(message_of<IoError>([&] { return read_json_file(written("a.json", pointer)); }),
            "read_json_file '" + path("a.json") + "': expected JSON, got " + rest);
  EXPECT_EQ(message_of<IoError>([&] { return load(written("m.safetensors.index.json", pointer)); }),
            "read_json_file '" + path("m.safetensors.index.json") + "': expected JSON, got " + rest);
}

TEST_F(FileKinds, AFailedDownload) {
  const std::string rest =
      "an HTML page; the download failed: open it as text to see why, and fetch the file again";
  EXPECT_EQ(refusals("<!DOCTYPE html>\n<html><body>404: not found</body></html>"), expected(rest));
  EXPECT_EQ(refusals("\n<html><body>Please log in to the network</body></html>"), expected(rest));
  EXPECT_EQ(refusals("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>")[0].substr(0, 48),
            "expected a safetensors file, got an XML document");
}

TEST_F(FileKinds, JsonAndOtherFormats) {
  const std::string json = "{\"error\": \"Repository not found\"}";
  EXPECT_EQ(refusals(json), expected("JSON; io::read_json_file reads it, io::load an index of files named "
                                     "*.safetensors.index.json"));
  EXPECT_EQ(refusals("GGUF" + std::string(40, '\3'))[0],
            "expected a safetensors file, got a GGUF file; convert it to safetensors");
  const std::string npy = "\x93NUMPY" + std::string(60, '\1');
  EXPECT_EQ(refusals(npy)[2], "expected a zip archive, got a .npy array; io::read_npy reads it");
  const std::string zip = made_by_python("arrays.npz");
  EXPECT_EQ(message_of<IoError>([&] { return read_npy(zip); }),
            "read_npy '" + zip +
                "': expected a .npy array, got a zip archive; io::load_torch reads PyTorch's files, "
                "io::read_npz NumPy's");
}

TEST_F(FileKinds, AnEntryThatIsNoArrayIsNamed) {
  for (const std::string& content :
       {std::string("12345"), std::string(), std::string("some text that is longer")}) {
    AtomicFile file(path("a.npz"));
    detail::ZipWriter archive(file);
    const auto bytes = std::as_bytes(std::span(content));
    archive.add("test", "notes.txt", {&bytes, 1});
    archive.finish();
    file.commit();
    EXPECT_EQ(message_of<IoError>([this] { return read_npz(path("a.npz")); }),
              "read_npz '" + path("a.npz") + "': expected a .npy array in entry \"notes.txt\", got " +
                  (content.size() < 8 ? std::to_string(content.size()) + " bytes" : "other bytes") +
                  "; write it with numpy.save");
  }
}

}  // namespace
}  // namespace mezzo::io
