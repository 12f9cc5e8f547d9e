// The walk over the folders.
#include "mezzo/data/image/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/data/dataset.h"
#include "mezzo/ops/factory.h"

namespace mezzo::data {

namespace {

namespace fs = std::filesystem;

struct FolderEntries {
  std::vector<std::string> folders, files;  ///< names, sorted
};

FolderEntries folder_entries(const std::string& op, const fs::path& folder) {
  FolderEntries entries;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code unknown;  // a link that leads nowhere is neither
    if (entry->is_directory(unknown)) {
      entries.folders.push_back(entry->path().filename().string());
    } else if (entry->is_regular_file(unknown)) {
      entries.files.push_back(entry->path().filename().string());
    }
  }
  if (error) {
    throw IoError(op, "a folder that can be read", error.message() + " for '" + folder.string() + "'",
                  "check the path and its permissions");
  }
  std::sort(entries.folders.begin(), entries.folders.end());
  std::sort(entries.files.begin(), entries.files.end());
  return entries;
}

bool has_extension(const std::string& name, const std::vector<std::string>& extensions) {
  std::string small = name;
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](const std::string& end) { return small.ends_with(end); });
}

/// The images below a folder: of each folder by name, the folders by path. A folder that was seen before, as
/// a link leads to it again, is passed over.
std::vector<std::string> images_below(const std::string& op, const fs::path& top,
                                      const std::vector<std::string>& extensions) {
  std::set<std::string> seen;
  std::vector<fs::path> open{top};
  std::vector<std::pair<std::string, std::vector<std::string>>> folders;
  while (!open.empty()) {
    const fs::path folder = open.back();
    open.pop_back();
    std::error_code error;
    if (!seen.insert(fs::canonical(folder, error).string()).second) continue;
    FolderEntries entries = folder_entries(op, folder);
    for (const std::string& name : entries.folders) open.push_back(folder / name);
    folders.emplace_back(folder.string(), std::move(entries.files));
  }
  std::sort(folders.begin(), folders.end());
  std::vector<std::string> images;
  for (const auto& [folder, names] : folders) {
    for (const std::string& name : names) {
      if (has_extension(name, extensions)) images.push_back((fs::path(folder) / name).string());
    }
  }
  return images;
}

}  // namespace

ImageFolder::ImageFolder(const std::string& folder, const ImageFolderOptions& options)
    : op_("ImageFolder '" + folder + "'"), image_{.mode = options.mode, .max_pixels = options.max_pixels} {
  classes_ = folder_entries(op_, folder).folders;
  if (classes_.empty())
    throw IoError(op_, "a folder for each class", "none", "give the folder that holds them");
  for (std::size_t label = 0; label < classes_.size(); ++label) {
    const std::vector<std::string> images =
        images_below(op_, fs::path(folder) / classes_[label], options.extensions);
    if (images.empty() && !options.allow_empty) {
      std::string ends;
      for (const std::string& extension : options.extensions) ends += (ends.empty() ? "" : ", ") + extension;
      throw IoError(op_, "images (" + ends + ") in the folder of each class",
                    "none in '" + classes_[label] + "'", "remove the folder, or set .allow_empty");
    }
    for (const std::string& path : images)
      samples_.push_back({.path = path, .label = static_cast<std::int64_t>(label)});
  }
}

Example ImageFolder::get(std::int64_t index) const {
  detail::require_index(op_, index, size());
  const Sample& sample = samples_[static_cast<std::size_t>(index)];
  return {read_image(sample.path, image_), full({}, sample.label, {.dtype = DType::i64})};
}

}  // namespace mezzo::data
