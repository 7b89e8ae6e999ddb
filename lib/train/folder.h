// SPDX-License-Identifier: Apache-2.0
// Pictures of files as samples (public: load_folder, check_folder in motley/data.h).
#pragma once
#include <motley/data.h>
#include <motley/error.h>

#include <filesystem>
#include <string>
#include <vector>

#include "pictures/picture.h"
#include "pictures/resample.h"
#include "train/folder_listing.h"
#include "train/picture_cache.h"

namespace motley {

struct HeaderCounts {
  Index turned = 0, alpha = 0;  // pictures that are turned as their EXIF says; whose alpha is dropped
};
std::string text_of(const HeaderCounts& counts);  // empty: there are none of them

// Samples of pictures in files. Decoded ones are kept, up to kMostDecoded bytes.
class PictureFiles : public Dataset {
 public:
  static constexpr std::size_t kMostDecoded = std::size_t{256} << 20;
  // files: relative to `folder`. extents: [channels, rows, cols]. labels: one per file, or none at all.
  PictureFiles(std::filesystem::path folder, std::vector<std::string> files, std::vector<Index> extents, const Resize& resize);
  void set_labels(std::vector<std::int32_t> labels, const std::vector<std::string>& classes);
  void set_advice(std::string when_damaged) { advice_ = std::move(when_damaged); }  // the end of read()'s errors about pixels
  Index samples() const override { return static_cast<Index>(files_.size()); }
  Index classes() const override { return static_cast<Index>(classes_.size()); }
  std::vector<std::string> class_names() const override { return classes_; }
  std::vector<Index> sample_extents() const override { return extents_; }
  std::int32_t label(Index sample) const override;
  void read(Index sample, const Box& box, std::span<double> out) const override;
  void read_region(Index sample, const PickRegion& pick, const Box& box, std::span<double> out) const override;
  std::filesystem::path file(Index sample) const;
  const std::vector<std::string>& files() const { return files_; }
  void check_decodes(Index sample) const;  // UserError (65)
  // UserError (65): by its header the picture is damaged, or has another size and none are resized.
  void check_header(Index sample, HeaderCounts& counts) const;

 private:
  PictureSize sample_size() const;
  // Pixels [rows, cols, channels] of the part of a sample.
  std::vector<std::uint8_t> resized_part(const Picture& picture, Index sample, const Region& part) const;
  Picture decoded(const std::filesystem::path& file) const;  // UserError (65)
  std::filesystem::path folder_;
  std::vector<std::string> files_;
  std::vector<Index> extents_;
  Resize resize_;
  std::vector<std::int32_t> labels_{};
  std::vector<std::string> classes_{};
  std::string advice_{};
  mutable PictureCache decoded_;
};

// Thrown for a picture of another size than the sample's, where none are resized.
class OtherSize : public UserError {
 public:
  explicit OtherSize(const std::string& text) : UserError(text, Exit::data) {}
};

struct FolderData {
  FolderListing listing{};
  std::shared_ptr<const PictureFiles> train{}, test{};
  Index samples() const { return train->samples() + (test ? test->samples() : 0); }
};
// advice: ends the errors about pictures that cannot be decoded when they are read.
FolderData open_folder(const std::filesystem::path& folder, const SampleKind& expected, const FolderOptions& options,
                       const std::string& advice = {});

struct DamagedPicture {
  std::string file{}, why{};  // "train/CLASS/FILE"; why: begins with the path
};
std::vector<std::string> names_of(const std::vector<DamagedPicture>& damaged);
// "2 of 601 pictures are damaged and skipped (train/cup/a.jpg, train/cup/b.jpg)".
std::string skipped_text(const std::vector<DamagedPicture>& damaged, Index samples);

// What the headers of all its pictures say.
struct FolderHeaders {
  HeaderCounts counts{};
  std::vector<DamagedPicture> damaged{};
  std::vector<std::string> other_size{};  // a line for each picture
};
FolderHeaders read_headers(const FolderData& data);
// The pictures that cannot be decoded among `samples` (those of training, then those of the test part): every `step`-th, on this
// thread and one more for each of the cores.
std::vector<DamagedPicture> undecodable(const FolderData& data, Range samples, Index step, const std::vector<int>& cores);

}  // namespace motley
