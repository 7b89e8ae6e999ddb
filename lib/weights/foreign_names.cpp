// SPDX-License-Identifier: Apache-2.0
#include "weights/foreign_names.h"

#include <algorithm>
#include <set>

#include "base/at.h"

namespace motley {

namespace {

using Extents = std::vector<Index>;

// Where a tensor of the network is found in the file.
struct Source {
  int tensor = -1;
  bool transposed = false;    // stored as a matrix [in, out]
  Index part = 0, parts = 1;  // of the rows (after transposing): part number `part` of `parts`
  bool is_plain() const { return !transposed && parts == 1; }
};
// A possible name, and the form of the tensor that has it.
struct Candidate {
  std::string name{};
  bool transposed = false;
  Index part = 0, parts = 1;
};

// Whether `stored` has some neighbouring dims of `wanted` joined into one.
bool is_joined(const Extents& stored, const Extents& wanted) {
  std::size_t next = 0;
  for (const Index size : stored) {
    Index product = 1;
    do {
      if (next == wanted.size()) return false;
      product *= wanted[next++];
    } while (product < size || (next < wanted.size() && wanted[next] == 1));
    if (product != size) return false;
  }
  return next == wanted.size();
}

// A matrix for a dense weight [out.., in..], a row for a bias [heads, head]; more dims than wanted if the first ones are 1.
bool has_form(Extents stored, const StoredTensor& wanted) {
  const Extents& extents = wanted.extents;
  while (stored.size() > extents.size() && stored.front() == 1) stored.erase(stored.begin());
  if (stored == extents) return true;
  const bool row = stored.size() == 1 && extents.size() == 2 && wanted.name.ends_with(".bias");
  return (row || (stored.size() == 2 && extents.size() > 2)) && is_joined(stored, extents);
}

bool replace_end(std::string& name, const std::string& end, const std::string& by) {
  if (!name.ends_with(end)) return false;
  name.replace(name.size() - end.size(), end.size(), by);
  return true;
}

// Other names of a tensor of the network, likelier ones first.
std::vector<Candidate> candidates(const std::string& name) {
  std::vector<Candidate> out{{name}};
  for (const std::string suffix : {".weight", ".bias"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string layer = name.substr(0, name.size() - suffix.size()), word = suffix.substr(1);
    Index part = 0;
    for (const std::string projection : {".query", ".key", ".value"}) {
      if (std::string of = layer; replace_end(of, projection, "")) {
        out.push_back({of + ".in_proj_" + word, false, part, 3});
        out.push_back({of + ".c_attn" + suffix, true, part, 3});
      }
      part++;
    }
    if (std::string of = layer; replace_end(of, ".out", "")) {
      out.push_back({of + ".out_proj" + suffix});
      out.push_back({of + ".c_proj" + suffix, true});
      if (replace_end(of, ".self", ".output.dense")) out.push_back({of + suffix});
    }
    if (layer.ends_with(".c_fc") || layer.ends_with(".c_proj")) out.push_back({name, true});
    out.push_back({layer + (suffix == ".weight" ? ".gamma" : ".beta")});
    if (suffix == ".weight") out.push_back({layer});
    if (std::string of = name; replace_end(of, ".decoder.bias", ".bias")) out.push_back({of});
  }
  return out;
}

// Without what wrappers put into names: DistributedDataParallel in front, torch.compile in front of what is compiled.
std::string unwrapped(std::string name) {
  const std::string compiled = "_orig_mod.", parallel = "module.";
  for (std::size_t at = 0; (at = name.find(compiled, at)) != std::string::npos;)
    (at == 0 || name[at - 1] == '.') ? static_cast<void>(name.erase(at, compiled.size())) : static_cast<void>(at++);
  while (name.starts_with(parallel)) name.erase(0, parallel.size());
  return name;
}

std::string with_underscores(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

class Finder {
 public:
  explicit Finder(const WeightsFile& file) : file_(file) {
    for (std::size_t i = 0; i < file.tensors().size(); i++) {
      const std::string& name = file.tensors()[i].name;
      const std::string plain = unwrapped(name);
      by_name_.emplace(name, static_cast<int>(i));
      by_plain_name_.emplace(plain, static_cast<int>(i));
      by_underscores_.emplace(with_underscores(plain), static_cast<int>(i));
      is_gpt2_ = is_gpt2_ || name.ends_with(".c_attn.weight");
      is_bert_ = is_bert_ || name.ends_with(".attention.self.query.weight");
    }
  }

  // tensor -1: the file does not have it in any form.
  Source find(const StoredTensor& wanted) const {
    for (const Candidate& c : candidates(wanted.name)) {
      if (c.transposed && !is_gpt2_) continue;
      // In GPT-2 files the dense weights that have the network's own name are [in, out] too.
      if (is_gpt2_ && !c.transposed && (c.name.ends_with(".c_fc.weight") || c.name.ends_with(".c_proj.weight"))) continue;
      const Source source{find(c.name), c.transposed, c.part, c.parts};
      if (source.tensor >= 0 && fits(source, wanted)) return source;
    }
    // The right name with another shape: the caller complains.
    return {find(wanted.name)};
  }

  // The file's fused tensors that have this one as a part.
  std::vector<int> fused_forms(const StoredTensor& wanted) const {
    std::vector<int> out;
    for (const Candidate& c : candidates(wanted.name)) {
      if (c.parts == 1 || (c.transposed && !is_gpt2_)) continue;
      const Source source{find(c.name), c.transposed, c.part, c.parts};
      if (source.tensor >= 0 && fits(source, wanted)) out.push_back(source.tensor);
    }
    return out;
  }

  bool is_gpt2() const { return is_gpt2_; }
  bool is_bert() const { return is_bert_; }
  // Whether the file has both tensors, with the same values.
  bool are_equal(const std::string& a, const std::string& b) const {
    const int first = find(a), second = find(b);
    return first >= 0 && second >= 0 && first != second &&
           at(file_.tensors(), first).extents == at(file_.tensors(), second).extents && file_.read(first) == file_.read(second);
  }

 private:
  // The tensor with this name, up to a prefix.
  int find(const std::string& wanted) const {
    if (const int same = in(by_name_, wanted); same >= 0) return same;
    const std::string name = unwrapped(wanted);
    for (const std::string prefix : {"", "transformer.", "bert.", "model."}) {
      if (const int longer = in(by_plain_name_, prefix + name); longer >= 0) return longer;
      if (!prefix.empty() && name.starts_with(prefix))
        if (const int shorter = in(by_plain_name_, name.substr(prefix.size())); shorter >= 0) return shorter;
    }
    return in(by_underscores_, with_underscores(name));
  }
  static int in(const std::map<std::string, int>& names, const std::string& name) {
    const auto found = names.find(name);
    return found == names.end() ? -1 : found->second;
  }
  bool fits(const Source& source, const StoredTensor& wanted) const {
    Extents stored = at(file_.tensors(), source.tensor).extents;
    if (source.transposed && stored.size() == 2) std::swap(stored[0], stored[1]);
    if (stored.empty() || stored[0] % source.parts != 0) return stored.empty() && wanted.extents.empty();
    stored[0] /= source.parts;
    return has_form(stored, wanted);
  }

  const WeightsFile& file_;
  std::map<std::string, int> by_name_{}, by_plain_name_{}, by_underscores_{};
  bool is_gpt2_ = false, is_bert_ = false;
};

// Tensors that GPT-2's and BERT's files have beside their network's; the second names of tied ones only if the values are the same.
bool affects_nothing(const Finder& finder, const StoredTensor& t) {
  const std::string name = unwrapped(t.name);
  const auto ends = [&](const char* end) { return name.ends_with(end); };
  const bool integers = t.dtype == "I64" || t.dtype == "I32";
  if ((ends(".num_batches_tracked") && t.extents.empty()) || (ends("position_ids") && integers)) return true;
  if (finder.is_gpt2() && (ends(".attn.masked_bias") || (ends(".attn.bias") && t.extents.size() == 4))) return true;
  if (finder.is_bert() && (name.find("pooler.dense.") != std::string::npos || name.starts_with("cls.seq_relationship.")))
    return true;
  for (const auto& [copy, tied] : {std::pair{"lm_head.weight", "wte.weight"},
                                   {"cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"},
                                   {"cls.predictions.bias", "cls.predictions.decoder.bias"},
                                   {"cls.predictions.decoder.bias", "cls.predictions.bias"}})
    if (ends(copy) && finder.are_equal(t.name, tied)) return true;
  return false;
}

class Renamed final : public WeightsFile {
 public:
  Renamed(std::unique_ptr<WeightsFile> file, std::vector<StoredTensor> tensors, std::vector<Source> sources)
      : WeightsFile(file->name(), std::move(tensors)), file_(std::move(file)), sources_(std::move(sources)) {}

  std::vector<std::string> classes() const override { return file_->classes(); }
  NpyData read(int tensor) const override {
    const Source& source = at(sources_, tensor);
    NpyData all = file_->read(source.tensor);
    if (source.is_plain()) return all;
    const Extents& stored = at(file_->tensors(), source.tensor).extents;
    std::visit([&](auto& values) { values = part_of(values, source, stored); }, all);
    return all;
  }
  std::vector<std::vector<double>> read_boxes(int tensor, const std::vector<Box>& boxes, const Extents& extents) const override {
    const Source& source = at(sources_, tensor);
    return source.is_plain() ? file_->read_boxes(source.tensor, boxes, extents) : WeightsFile::read_boxes(tensor, boxes, extents);
  }

 private:
  template <class T>
  static std::vector<T> part_of(const std::vector<T>& values, const Source& source, const Extents& stored) {
    const Index rows = source.transposed && stored.size() == 2 ? stored[1] : stored[0],
                columns = static_cast<Index>(values.size()) / std::max<Index>(1, rows), first = rows / source.parts * source.part;
    std::vector<T> out;
    out.reserve(values.size() / static_cast<std::size_t>(source.parts));
    for (Index r = first; r < first + rows / source.parts; r++)
      for (Index c = 0; c < columns; c++) out.push_back(at(values, source.transposed ? c * rows + r : r * columns + c));
    return out;
  }

  std::unique_ptr<WeightsFile> file_;
  std::vector<Source> sources_;
};

}  // namespace

std::unique_ptr<WeightsFile> in_own_names(std::unique_ptr<WeightsFile> file, const std::vector<StoredTensor>& wanted) {
  const Finder finder(*file);
  std::vector<StoredTensor> tensors;
  std::vector<Source> sources;
  std::set<int> used, contradicted;
  for (const StoredTensor& w : wanted) {
    const Source source = finder.find(w);
    if (source.tensor < 0 || (source.is_plain() && used.contains(source.tensor))) continue;
    const StoredTensor& stored = at(file->tensors(), source.tensor);
    const bool unlike = source.is_plain() && !has_form(stored.extents, w);
    tensors.push_back({w.name, stored.dtype, unlike ? stored.extents : w.extents});
    sources.push_back(source);
    used.insert(source.tensor);
    for (const int other : finder.fused_forms(w))
      if (other != source.tensor) contradicted.insert(other);
  }
  for (int i = 0; i < static_cast<int>(file->tensors().size()); i++) {
    const StoredTensor& t = at(file->tensors(), i);
    if ((used.contains(i) && !contradicted.contains(i)) || affects_nothing(finder, t)) continue;
    tensors.push_back(t);
    sources.push_back({i});
  }
  return std::make_unique<Renamed>(std::move(file), std::move(tensors), std::move(sources));
}

}  // namespace motley
