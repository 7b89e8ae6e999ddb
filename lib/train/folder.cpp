// SPDX-License-Identifier: Apache-2.0
// Folders of pictures, one per class.
#include <motley/data.h>
#include <motley/error.h>

#include <algorithm>

#include "base/at.h"
#include "train/byte_images.h"
#include "train/data_files.h"
#include "train/pictures.h"

namespace motley {

namespace fs = std::filesystem;

namespace {

// The names in a folder that are not hidden, sorted. UserError (74)
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (const std::string name = at->path().filename().string(); name.front() != '.') out.push_back(name);
  if (error) throw UserError(folder.string() + ": cannot be read: " + error.message(), Exit::io);
  std::sort(out.begin(), out.end());
  return out;
}

bool is_picture(const std::string& name) {
  std::string ending = fs::path(name).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

struct Listing {
  std::vector<std::string> files{};  // relative to the folder
  std::vector<std::int32_t> labels{};
  std::vector<std::string> classes{};
};

// classes: for the test part those of the training part; else nullptr.
Listing list(const fs::path& folder, const std::vector<std::string>* classes) {
  Listing out;
  for (const std::string& name : names_in(folder))
    if (std::error_code ignored; fs::is_directory(folder / name, ignored)) out.classes.push_back(name);
  if (out.classes.empty())
    throw UserError(folder.string() + ": no folders in it; expected one for each class, with its images", Exit::missing);
  for (std::size_t c = 0; c < out.classes.size(); c++) {
    const std::string& name = out.classes[c];
    std::size_t label = c;
    if (classes != nullptr) {
      const auto known = std::lower_bound(classes->begin(), classes->end(), name);
      if (known == classes->end() || *known != name)
        throw UserError((folder / name).string() + ": the training data has no class of this name" + did_you_mean(name, *classes),
                        Exit::data);
      label = static_cast<std::size_t>(known - classes->begin());
    }
    const std::size_t before = out.files.size();
    for (const std::string& file : names_in(folder / name))
      if (is_picture(file)) out.files.push_back(name + "/" + file);
    if (out.files.size() == before)
      throw UserError((folder / name).string() + ": no .png, .jpg or .jpeg file in this class folder", Exit::data);
    out.labels.resize(out.files.size(), static_cast<std::int32_t>(label));
  }
  if (classes != nullptr) out.classes = *classes;
  return out;
}

class Folder final : public Dataset {
 public:
  Folder(fs::path folder, Listing listing, const std::vector<Index>& extents)
      : folder_(std::move(folder)), listing_(std::move(listing)), extents_(extents) {}
  Index samples() const override { return static_cast<Index>(listing_.files.size()); }
  Index classes() const override { return static_cast<Index>(listing_.classes.size()); }
  std::vector<Index> sample_extents() const override { return extents_; }
  std::int32_t label(Index sample) const override { return at(listing_.labels, sample); }
  fs::path file(Index sample) const { return folder_ / at(listing_.files, sample); }
  void read(Index sample, const Box& box, std::span<double> out) const override {
    check(volume(box) == static_cast<Index>(out.size()), "a sample's box fills what is given");
    if (out.empty()) return;
    const std::vector<std::uint8_t> pixels = read_picture(file(sample), extents_[0], {extents_[1], extents_[2]});
    std::size_t to = 0;
    for (Index c = box[0].begin; c < box[0].end; c++)
      for (Index h = box[1].begin; h < box[1].end; h++)
        for (Index w = box[2].begin; w < box[2].end; w++)
          out[to++] = pixels[static_cast<std::size_t>((h * extents_[2] + w) * extents_[0] + c)] / 255.0;
  }

 private:
  fs::path folder_;
  Listing listing_;
  std::vector<Index> extents_;
};

struct Parts {
  std::shared_ptr<const Folder> train{}, test{};
};

Parts parts_of(const fs::path& folder, const SampleKind& expected) {
  const auto is_there = [](const fs::path& path) {
    std::error_code ignored;
    return fs::is_directory(path, ignored);
  };
  if (!is_there(folder)) throw UserError(folder.string() + ": there is no such folder", Exit::missing);
  if (!is_there(folder / "train"))
    throw UserError(
        folder.string() + ": there is no folder \"train\" in it; expected train/CLASS/*.png or *.jpg, and test/ likewise",
        Exit::missing);
  Listing train = list(folder / "train", nullptr);
  if (const auto found = static_cast<Index>(train.classes.size()); expected.classes > 0 && found > expected.classes)
    throw UserError(folder.string() + ": " + std::to_string(found) + " class folders in \"train\"; the network has " +
                    std::to_string(expected.classes) + " classes");
  std::vector<Index> extents = expected.extents;
  if (extents.empty()) {
    const PictureSize size = picture_size(folder / "train" / train.files.front());
    extents = {3, size.rows, size.cols};
  }
  if (extents.size() != 3 || (extents[0] != 1 && extents[0] != 3))
    throw UserError(
        "images have channels (1 or 3), rows and columns: expected these three dims after the batch in the network's input");
  Parts out;
  const fs::path test = folder / "test";
  std::error_code missing;
  if (!is_there(test) && fs::symlink_status(test, missing).type() != fs::file_type::not_found)
    throw UserError(test.string() + ": not a folder; expected test/CLASS/*.png or *.jpg, or nothing of this name", Exit::data);
  if (is_there(test)) out.test = std::make_shared<Folder>(test, list(test, &train.classes), extents);
  out.train = std::make_shared<Folder>(folder / "train", std::move(train), extents);
  return out;
}

}  // namespace

Datasets load_folder(const fs::path& folder, const SampleKind& expected) {
  const Parts parts = parts_of(folder, expected);
  return {parts.train, parts.test};
}

Datasets check_folder(const fs::path& folder, const SampleKind& expected, std::vector<std::string>& wrong) {
  const Parts parts = parts_of(folder, expected);
  for (const auto& part : {parts.train, parts.test})
    for (Index n = 0; part && n < part->samples(); n++) try {
        check_picture(part->file(n), {part->sample_extents()[1], part->sample_extents()[2]});
      } catch (const UserError& e) {
        wrong.emplace_back(e.what());
      }
  return {parts.train, parts.test};
}

std::vector<std::string> check_folder(const fs::path& folder, const SampleKind& expected) {
  std::vector<std::string> wrong;
  check_folder(folder, expected, wrong);
  return wrong;
}

}  // namespace motley
