// SPDX-License-Identifier: Apache-2.0
#include "train/skip_damaged.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <utility>

#include "base/at.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json_fields.h"
#include "mesh/control.h"
#include "run/agreed.h"
#include "run/start.h"
#include "train/read_all.h"
#include "weights/weights_file.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

struct List {
  std::string names{};  // hash of all pictures' names
  std::vector<DamagedPicture> damaged{};
};

const Table<List>& list_fields() {
  static const Table<DamagedPicture> picture{text_field("file", "of the picture", &DamagedPicture::file),
                                             text_field("why", "it cannot be decoded", &DamagedPicture::why)};
  static const Table<List> table{version_field<List>(VersionKey::required),
                                 text_field("names", "hash of all pictures' names", &List::names),
                                 list_field("damaged", "pictures that are skipped", &List::damaged, picture)};
  return table;
}

// UserError (65)
List list_of(const std::string& name, const std::string& text) {
  Complaints complaints;
  const auto json = read_json(name, text, complaints, kByMotley);
  Reader reader{complaints};
  List out;
  if (json) reader.object(*json, list_fields(), out);
  complaints.raise(Exit::data);
  return out;
}

std::string list_text(const List& list) {
  Json out, damaged{Json::Array{}};
  for (const DamagedPicture& one : list.damaged) {
    Json its;
    damaged.push(its.set("file", one.file).set("why", one.why));
  }
  return to_text(out.set("version", 1).set("names", list.names).set("damaged", std::move(damaged)), 1) + "\n";
}

std::string hash_of_names(const FolderListing& listing) {
  Hash hash;
  for (const FolderPart* part : {&listing.train, &listing.test}) hash.add(part->name).add(part->files);
  return to_hex(hash.value());
}

// A list that was kept for the same pictures; its text is empty if there is none.
std::string known_list(const SkipOptions& options, const std::string& names) {
  std::vector<fs::path> folders = options.known;
  folders.insert(folders.begin(), options.keep_in.path());
  for (const fs::path& folder : folders) {
    const fs::path file = folder / kDamagedFile;
    if (std::error_code ignored; folder.empty() || !fs::is_regular_file(file, ignored)) continue;
    const std::string text = read_file(file.string());
    if (list_of(file.string(), text).names == names) return text;
    if (folder == options.keep_in.path() && options.say)
      options.say("note: the pictures are not those with which this run began: all of them are decoded again");
  }
  return "";
}

using Undecodable = std::function<std::vector<DamagedPicture>(Range samples, Index step, const std::vector<int>& cores)>;

// Each rank decodes a share of so many. Collective.
std::vector<DamagedPicture> decode_all(Runtime& rt, Index all, const Undecodable& undecodable, const SkipOptions& options) {
  rt.phase("decoding pictures");
  const std::vector<int> cores = spare_cores();
  const Index ranks = rt.ranks(), at_once = 32 * ranks * (1 + static_cast<Index>(cores.size()));
  List mine;
  for (Index first = 0; first < all; first += at_once) {
    if (agree(rt.transport(), rt.stop_requested() ? 1 : 0).status != 0)
      throw Stopped("stopped on request after decoding " + std::to_string(first) + " pictures");
    if (rt.rank() == 0 && options.progress) options.progress(fmt::format("decoding picture {} of {}", first, all));
    const Range range{first + rt.rank(), std::min(first + at_once, all)};
    std::vector<DamagedPicture> found;
    agreed(rt.transport(), [&] {
      if (range.begin < range.end) found = undecodable(range, ranks, cores);
    });
    std::move(found.begin(), found.end(), std::back_inserter(mine.damaged));
  }
  const std::string text = list_text(mine);
  std::vector<DamagedPicture> out;
  for (const std::vector<std::byte>& bytes : control::gather(rt.transport(), std::as_bytes(std::span(text)))) {
    List its = list_of("a rank's list", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    std::move(its.damaged.begin(), its.damaged.end(), std::back_inserter(out));
  }
  std::sort(out.begin(), out.end(), [](const DamagedPicture& a, const DamagedPicture& b) { return a.file < b.file; });
  return out;
}

}  // namespace

std::vector<std::string> damaged_pictures(Runtime& rt, const FolderData& data, const SkipOptions& options) {
  const std::string names = hash_of_names(data.listing);
  std::string text = from_rank_0(rt.transport(), [&] { return known_list(options, names); });
  List list;
  if (!text.empty()) {
    list = list_of(kDamagedFile, text);
  } else {
    const auto decode = [&](Range samples, Index step, const std::vector<int>& cores) {
      return undecodable(data, samples, step, cores);
    };
    list = {names, decode_all(rt, data.samples(), decode, options)};
    text = list_text(list);
  }
  on_rank_0(rt.transport(), [&] { write_text(options.keep_in / kDamagedFile, text); });
  if (rt.rank() == 0 && options.say && !list.damaged.empty())
    options.say(fmt::format("note: {}; {} says why", skipped_text(list.damaged, data.samples()), kDamagedFile));
  return names_of(list.damaged);
}

std::vector<DamagedPicture> damaged_files(Runtime& rt, const PictureFiles& files, const SkipOptions& options) {
  return decode_all(
      rt, files.samples(),
      [&](Range samples, Index step, const std::vector<int>& cores) {
        std::vector<DamagedPicture> out;
        for (const Unreadable& one : unreadable(
                 samples, step, [&](Index n) { files.check_decodes(n); }, cores))
          out.push_back({at(files.files(), one.sample), one.why});
        return out;
      },
      options);
}

}  // namespace motley
