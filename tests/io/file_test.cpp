// Files: reading says why it fails, writing leaves the old content or the new one and nothing else.
#include "mezzo/io/detail/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "mezzo/core/error.h"

namespace mezzo::io {
namespace {

namespace fs = std::filesystem;

/// A folder of its own for each test, removed at its end.
class FileTest : public ::testing::Test {
 protected:
  FileTest() : folder_(fs::path(::testing::TempDir()) / ("mezzo_file_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~FileTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::ptrdiff_t file_count() const {
    return std::distance(fs::directory_iterator(folder_), {});
  }

 private:
  fs::path folder_;
};

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_all(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

template <class F>
std::string io_error(F action) {
  try {
    action();
  } catch (const IoError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no IoError";
  return {};
}

TEST_F(FileTest, ReadsWhatWasWritten) {
  std::string text = "a\0b\xFF";
  text.resize(300'000, 'z');
  write_all(path("a"), text);
  EXPECT_EQ(content(path("a")), text);
  const std::vector<std::byte> bytes = read_file(path("a"));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), text);
  write_all(path("empty"), "");
  EXPECT_TRUE(read_file(path("empty")).empty());
}

TEST_F(FileTest, NothingAppearsBeforeCommitAndNothingIsLeftWithout) {
  write_all(path("a"), "old");
  {
    AtomicFile file(path("a"));
    file.write("new");
    EXPECT_EQ(content(path("a")), "old");
    EXPECT_EQ(file_count(), 2);
  }
  EXPECT_EQ(content(path("a")), "old");
  EXPECT_EQ(file_count(), 1);
}

TEST_F(FileTest, TwoWritersOfOneNameDoNotMix) {
  AtomicFile first(path("a"));
  AtomicFile second(path("a"));
  first.write("1");
  second.write("2");
  second.commit();
  EXPECT_EQ(content(path("a")), "2");
  first.commit();
  EXPECT_EQ(content(path("a")), "1");
  EXPECT_EQ(file_count(), 1);
}

TEST_F(FileTest, FollowsALinkToItsFile) {
  write_all(path("target"), "old");
  fs::create_symlink("target", path("link"));
  write_all(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(content(path("target")), "new");
}

TEST_F(FileTest, FollowsALinkToAFileThatIsNotThereYet) {
  fs::create_directory(path("folder"));
  fs::create_symlink("folder/target", path("second"));
  fs::create_symlink(path("second"), path("first"));
  for (const char* text : {"made", "replaced"}) {
    write_all(path("first"), text);
    EXPECT_TRUE(fs::is_symlink(path("first")) && fs::is_symlink(path("second")));
    EXPECT_EQ(content(path("folder/target")), text);
  }
  fs::create_symlink("nowhere/target", path("astray"));
  EXPECT_NE(io_error([&] { write_all(path("astray"), "new"); }).find("No such file or directory"),
            std::string::npos);
  EXPECT_TRUE(fs::is_symlink(path("astray")));
}

TEST_F(FileTest, RefusesLinksThatLeadToThemselves) {
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  EXPECT_NE(io_error([&] {
              write_all(path("a"), "new");
            }).find("expected a path that can lead to a file, got Too many levels"),
            std::string::npos);
  EXPECT_TRUE(fs::is_symlink(path("a")) && fs::is_symlink(path("b")));
  EXPECT_EQ(file_count(), 2);
}

TEST_F(FileTest, NamesMayBeAsLongAsTheSystemAllows) {
  if (::pathconf(path("").c_str(), _PC_NAME_MAX) != 255) GTEST_SKIP() << "names here have another limit";
  const std::string name(255, 'n'), alike = std::string(254, 'n') + "m";
  write_all(path(alike), "mine");
  for (const char* text : {"made", "replaced"}) {
    write_all(path(name), text);
    EXPECT_EQ(content(path(name)), text);
  }
  EXPECT_EQ(content(path(alike)), "mine");
  EXPECT_EQ(file_count(), 2);
  EXPECT_NE(
      io_error([&] { write_all(path(name + "n"), "new"); }).find("expected a path that can lead to a file"),
      std::string::npos);
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777U;
}

TEST_F(FileTest, KeepsTheModeOfTheFileItReplaces) {
  for (const mode_t mode : {0600U, 0640U, 0755U}) {
    write_all(path("a"), "old");
    ASSERT_EQ(::chmod(path("a").c_str(), mode), 0);
    write_all(path("a"), "new");
    EXPECT_EQ(mode_of(path("a")), mode);
    EXPECT_EQ(content(path("a")), "new");
  }
}

TEST_F(FileTest, RefusesToReplaceAReadOnlyFile) {
  write_all(path("a"), "old");
  fs::create_symlink("a", path("link"));
  ASSERT_EQ(::chmod(path("a").c_str(), 0444), 0);
  EXPECT_NE(io_error([&] { write_all(path("a"), "new"); }).find("got one that is read-only"),
            std::string::npos);
  EXPECT_NE(io_error([&] { write_all(path("link"), "new"); }).find("got one that is read-only"),
            std::string::npos);
  EXPECT_EQ(content(path("a")), "old");
  EXPECT_EQ(file_count(), 2);
}

TEST_F(FileTest, RemovesWhatDeadProcessesLeftAndNothingElse) {
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(path("a"));
    file.write("half");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const std::string left = path("a.tmp-" + std::to_string(child) + "-0");
  ASSERT_TRUE(fs::exists(left));
  // Names that are alike, of living processes, of other files, and no files.
  const std::string dead = std::to_string(child), alive = std::to_string(::getpid());
  const std::vector<std::string> others{"a.tmp-" + alive + "-7",
                                        "a.tmp-" + dead,
                                        "a.tmp-" + dead + "-0x",
                                        "a.tmp-0-0",
                                        "a.tmp--1-0",
                                        "a.tmp-99999999999999999999-0",
                                        "b.tmp-" + dead + "-0",
                                        "a.tmp-" + dead + "-"};
  for (const std::string& name : others) std::ofstream(path(name)) << "mine";
  fs::create_directory(path("a.tmp-" + dead + "-5"));
  fs::create_symlink("b", path("a.tmp-" + dead + "-6"));
  write_all(path("a"), "whole");
  EXPECT_EQ(content(path("a")), "whole");
  EXPECT_FALSE(fs::exists(left));
  for (const std::string& name : others) EXPECT_EQ(content(path(name)), "mine") << name;
  EXPECT_TRUE(fs::is_directory(path("a.tmp-" + dead + "-5")));
  EXPECT_TRUE(fs::is_symlink(path("a.tmp-" + dead + "-6")));
}

TEST_F(FileTest, RefusesAPathWithAZeroByte) {
  using namespace std::string_literals;
  write_all(path("a"), "old");
  EXPECT_NE(io_error([&] { write_all(path("a\0b"s), "new"); }).find("without a zero byte"),
            std::string::npos);
  EXPECT_NE(io_error([&] { static_cast<void>(read_file(path("a\0b"s))); }).find("without a zero byte"),
            std::string::npos);
  EXPECT_EQ(content(path("a")), "old");
}

TEST_F(FileTest, RefusesWhatIsNoRegularFile) {
  EXPECT_NE(io_error([&] {
              static_cast<void>(read_file(path("")));
            }).find("expected a regular file, got a directory"),
            std::string::npos);
  EXPECT_NE(io_error([&] { AtomicFile file(path("")); }).find("got a directory"), std::string::npos);
  EXPECT_NE(io_error([] { AtomicFile file("/dev/null"); }).find("got a device"), std::string::npos);
  EXPECT_NE(io_error([] { static_cast<void>(read_file("/dev/zero")); }).find("got a device"),
            std::string::npos);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_NE(io_error([&] { static_cast<void>(read_file(path("pipe"))); }).find("got a pipe"),
            std::string::npos);
}

TEST_F(FileTest, GivesTheReasonOfTheSystem) {
  EXPECT_EQ(
      io_error([&] { static_cast<void>(read_file(path("none"))); }),
      "read_file '" + path("none") +
          "': expected a readable file, got No such file or directory; check the path and its permissions");
  EXPECT_NE(io_error([&] { AtomicFile file(path("no/such/folder")); }).find("No such file or directory"),
            std::string::npos);
}

TEST_F(FileTest, ReadingPastTheEndIsAnError) {
  write_all(path("a"), "12345");
  InputFile file(path("a"), "test");
  std::array<std::byte, 4> four{};
  file.read(four);
  EXPECT_NE(
      io_error([&] { file.read(four); }).find("test '" + path("a") + "': expected 3 more bytes, got the end"),
      std::string::npos);
}

TEST_F(FileTest, AFullDiskLeavesTheOldContent) {
  write_all(path("a"), "old");
  // The limit on file sizes stands in for a full disk; a child process sets it, so that this one can go on
  // writing.
  const auto write_with_limit = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = io_error([&] { write_all(path("a"), std::string(10'000, 'x')); });
    ::_exit(message.find("File too large") != std::string::npos ? 0 : 1);
  };
  EXPECT_EXIT(write_with_limit(), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(content(path("a")), "old");
  EXPECT_EQ(file_count(), 1);
}

}  // namespace
}  // namespace mezzo::io
