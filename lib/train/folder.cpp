// SPDX-License-Identifier: Apache-2.0
#include "train/folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/error.h>

#include <algorithm>
#include <utility>

#include "base/at.h"
#include "base/utf8.h"
#include "pictures/picture.h"
#include "pictures/resample.h"
#include "train/read_all.h"

namespace motley {

namespace fs = std::filesystem;

namespace {

// The first of `most` places of which `taken` are taken in the middle: as torchvision's CenterCrop, half places to the even number.
Index middle(Index most, Index taken) {
  const Index twice = most - taken;
  return twice / 2 + (twice % 2 != 0 && twice / 2 % 2 != 0 ? 1 : 0);
}

// The size to which a picture is scaled, and the part of it that is the sample.
struct Scaled {
  PictureSize size{};
  Index top = 0, left = 0;
};

Scaled scaled(const PictureSize& picture, const Resize& resize) {
  if (resize.shorter == 0) return {{resize.rows, resize.cols}};
  const Index shortest = std::min(picture.rows, picture.cols);
  const PictureSize size{picture.rows * resize.shorter / shortest, picture.cols * resize.shorter / shortest};
  return {size, middle(size.rows, resize.rows), middle(size.cols, resize.cols)};
}

std::string size_text(const PictureSize& size) {
  return fmt::format("{} x {}", size.rows, size.cols);
}

[[noreturn]] void refuse_size(const fs::path& file, const PictureSize& size, bool is_turned, const PictureSize& expected) {
  throw OtherSize(fmt::format("{}: an image of {} (rows, columns{}); expected {}", file.string(), size_text(size),
                              is_turned ? ", turned as its EXIF says" : "", size_text(expected)));
}

// pixels: [rows, cols, channels] of a box, out: [channels, rows, cols] of those channels.
void to_planes(const std::vector<std::uint8_t>& pixels, Index all_channels, Range channels, std::span<double> out) {
  const std::size_t each = static_cast<std::size_t>(all_channels), count = pixels.size() / each;
  std::size_t to = 0;
  for (auto c = static_cast<std::size_t>(channels.begin); c < static_cast<std::size_t>(channels.end); c++)
    for (std::size_t i = 0; i < count; i++) out[to++] = pixels[i * each + c] / 255.0;
}

}  // namespace

PictureFiles::PictureFiles(fs::path folder, std::vector<std::string> files, std::vector<Index> extents, const Resize& resize)
    : folder_(std::move(folder)), files_(std::move(files)), extents_(std::move(extents)), resize_(resize), decoded_(kMostDecoded) {
  if (extents_.size() != 3 || (extents_[0] != 1 && extents_[0] != 3))
    throw UserError(
        "images have channels (1 or 3), rows and columns: expected these three dims after the batch in the network's input");
}

void PictureFiles::set_labels(std::vector<std::int32_t> labels, const std::vector<std::string>& classes) {
  labels_ = std::move(labels);
  classes_.clear();
  for (const std::string& name : classes) classes_.push_back(printable(name));  // a folder's name may be any bytes
}

PictureSize PictureFiles::sample_size() const {
  return {extents_[1], extents_[2]};
}

std::int32_t PictureFiles::label(Index sample) const {
  return labels_.empty() ? 0 : at(labels_, sample);
}

fs::path PictureFiles::file(Index sample) const {
  return folder_ / at(files_, sample);
}

Picture PictureFiles::decoded(const fs::path& file) const {
  try {
    return decode_picture(file, extents_[0]);
  } catch (const UserError& e) {
    throw UserError(e.what() + (e.code() == Exit::data ? advice_ : ""), e.code());
  }
}

std::vector<std::uint8_t> PictureFiles::resized_part(const Picture& picture, Index sample, const Region& part) const {
  Scaled to{picture.size};
  if (resize_.rows > 0)
    to = scaled(picture.size, resize_);
  else if (picture.size != sample_size())
    refuse_size(file(sample), picture.size, false, sample_size());
  const Region moved{{to.top + part.rows.begin, to.top + part.rows.end}, {to.left + part.cols.begin, to.left + part.cols.end}};
  return resized(picture, whole(picture.size), to.size, moved);
}

void PictureFiles::read(Index sample, const Box& box, std::span<double> out) const {
  check(volume(box) == static_cast<Index>(out.size()), "a sample's box fills what is given");
  if (out.empty()) return;
  const fs::path path = file(sample);
  const FileStamp stamp = stamp_of(path);
  const Region part{box[1], box[2]};
  const Index channels = extents_[0];
  PictureCache::Pixels pixels = decoded_.find(sample, stamp);
  if (pixels == nullptr) {
    const Picture picture = decoded(path);
    if (!decoded_.has_room(static_cast<std::size_t>(channels * extents_[1] * extents_[2])))
      return to_planes(resized_part(picture, sample, part), channels, box[0], out);
    pixels = std::make_shared<const std::vector<std::uint8_t>>(resized_part(picture, sample, whole(sample_size())));
    decoded_.keep(sample, stamp, pixels);
  }
  std::size_t to = 0;
  for (Index c = box[0].begin; c < box[0].end; c++)
    for (Index h = box[1].begin; h < box[1].end; h++)
      for (Index w = box[2].begin; w < box[2].end; w++) out[to++] = at(*pixels, (h * extents_[2] + w) * channels + c) / 255.0;
}

void PictureFiles::read_region(Index sample, const PickRegion& pick, const Box& box, std::span<double> out) const {
  check(volume(box) == static_cast<Index>(out.size()), "a sample's box fills what is given");
  if (out.empty()) return;
  const Picture picture = decoded(file(sample));
  const PictureRegion picked = pick(picture.size.rows, picture.size.cols);
  const auto inside = [](Range part, Index all) { return part.begin >= 0 && part.size() > 0 && part.end <= all; };
  if (!inside(picked.rows, picture.size.rows) || !inside(picked.cols, picture.size.cols))
    throw UserError("a region outside of the picture of " + size_text(picture.size));
  to_planes(resized(picture, {picked.rows, picked.cols}, sample_size(), {box[1], box[2]}), extents_[0], box[0], out);
}

void PictureFiles::check_decodes(Index sample) const {
  static_cast<void>(decode_picture(file(sample), extents_[0]));
}

void PictureFiles::check_header(Index sample, HeaderCounts& counts) const {
  const PictureFacts facts = picture_facts(file(sample));
  counts.turned += facts.orientation != 1 ? 1 : 0;
  counts.alpha += facts.alpha ? 1 : 0;
  if (resize_.rows == 0 && facts.size != sample_size())
    refuse_size(file(sample), facts.size, facts.orientation != 1, sample_size());
}

namespace {

// For a network with fewer classes than the folder.
std::string too_many_classes(const fs::path& folder, const FolderListing& its, Index expected) {
  constexpr std::size_t kMost = 10;
  const std::size_t shown = std::min(kMost, its.classes.size());
  std::string out =
      fmt::format("{}: {} class folders in \"{}\" ({}{}); the network has {} classes", folder.string(), its.classes.size(),
                  its.train.name, fmt::join(its.classes.begin(), its.classes.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                  shown < its.classes.size() ? ", ..." : "", expected);
  for (const std::string& name : its.empty)
    if (name.starts_with(its.train.name + "/")) return out + "; " + name + " holds no picture: remove it if it is none";
  return out + fmt::format("; give its output dim the size {}", its.classes.size());
}

}  // namespace

FolderData open_folder(const fs::path& folder, const SampleKind& expected, const FolderOptions& options,
                       const std::string& advice) {
  FolderData out{list_folder(folder, options.without)};
  const FolderListing& its = out.listing;
  if (const auto found = static_cast<Index>(its.classes.size()); expected.classes > 0 && found > expected.classes)
    throw UserError(too_many_classes(folder, its, expected.classes));
  std::vector<Index> extents = expected.extents;
  if (extents.empty()) {
    const PictureSize first = options.resize.rows > 0 ? PictureSize{options.resize.rows, options.resize.cols}
                                                      : picture_facts(folder / its.train.name / its.train.files.front()).size;
    extents = {3, first.rows, first.cols};
  }
  const auto made = [&](const FolderPart& part) {
    auto files = std::make_shared<PictureFiles>(folder / part.name, part.files, extents, options.resize);
    files->set_labels(part.labels, its.classes);
    files->set_advice(advice);
    return files;
  };
  out.train = made(its.train);
  if (!its.test.name.empty()) out.test = made(its.test);
  return out;
}

std::string text_of(const HeaderCounts& counts) {
  std::string out;
  if (counts.turned > 0) out = fmt::format("{} pictures turned as their EXIF says", counts.turned);
  if (counts.alpha > 0) out += fmt::format("{}{} pictures with alpha, which is dropped", out.empty() ? "" : "; ", counts.alpha);
  return out;
}

std::vector<std::string> names_of(const std::vector<DamagedPicture>& damaged) {
  std::vector<std::string> out;
  for (const DamagedPicture& one : damaged) out.push_back(one.file);
  return out;
}

std::string skipped_text(const std::vector<DamagedPicture>& damaged, Index samples) {
  constexpr std::size_t kMost = 3;
  std::string names;
  for (std::size_t i = 0; i < std::min(kMost, damaged.size()); i++) names += (i == 0 ? "" : ", ") + damaged[i].file;
  return fmt::format("{} of {} pictures {} damaged and skipped ({}{})", damaged.size(), samples, damaged.size() == 1 ? "is" : "are",
                     names, damaged.size() > kMost ? ", ..." : "");
}

namespace {

// Calls use(part's folder, part, sample) for a sample of both parts.
template <class F>
void with_sample(const FolderData& data, Index sample, F&& use) {
  const Index trained = data.train->samples();
  sample < trained ? use(data.listing.train.name, *data.train, sample) : use(data.listing.test.name, *data.test, sample - trained);
}

std::string name_of_sample(const FolderData& data, Index sample) {
  std::string out;
  with_sample(data, sample,
              [&](const std::string& folder, const PictureFiles& part, Index n) { out = folder + "/" + at(part.files(), n); });
  return out;
}

}  // namespace

FolderHeaders read_headers(const FolderData& data) {
  FolderHeaders out;
  for (Index n = 0; n < data.samples(); n++) try {
      with_sample(data, n, [&](const std::string&, const PictureFiles& part, Index its) { part.check_header(its, out.counts); });
    } catch (const OtherSize& e) {
      out.other_size.emplace_back(e.what());
    } catch (const UserError& e) {
      if (e.code() != Exit::data) throw;
      out.damaged.push_back({name_of_sample(data, n), e.what()});
    }
  return out;
}

std::vector<DamagedPicture> undecodable(const FolderData& data, Range samples, Index step, const std::vector<int>& cores) {
  const auto decode = [&](Index n) {
    with_sample(data, n, [](const std::string&, const PictureFiles& part, Index its) { part.check_decodes(its); });
  };
  std::vector<DamagedPicture> out;
  for (const Unreadable& one : unreadable(samples, step, decode, cores)) out.push_back({name_of_sample(data, one.sample), one.why});
  return out;
}

Datasets load_folder(const fs::path& folder, const SampleKind& expected, const FolderOptions& options) {
  const FolderData data = open_folder(folder, expected, options);
  return {data.train, data.test};
}

std::vector<std::string> check_folder(const fs::path& folder, const SampleKind& expected, const FolderOptions& options) {
  const FolderHeaders found = read_headers(open_folder(folder, expected, options));
  std::vector<std::string> out = found.other_size;
  for (const DamagedPicture& one : found.damaged) out.push_back(one.why);
  return out;
}

}  // namespace motley
