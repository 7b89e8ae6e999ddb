// SPDX-License-Identifier: Apache-2.0
#include "weights/foreign_names.h"

#include <algorithm>
#include <set>

#include "base/at.h"

namespace motley {

namespace {

using Extents = std::vector<Index>;

// Where a tensor of the network is found in the file.
struct NamedSource {
  int tensor = -1;
  bool transposed = false;    // stored as a matrix [in, out]
  Index part = 0, parts = 1;  // of the rows (after transposing): part number `part` of `parts`
  bool is_plain() const { return !transposed && parts == 1; }
};
// A possible name, and the form of the tensor that has it.
struct Candidate {
  std::string name{};
  bool gpt2 = false;  // a name of GPT-2's: [in, out] where the file's matrices are so
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

bool is_gpt2_matrix(const std::string& name) {
  return name.ends_with(".c_attn.weight") || name.ends_with(".c_proj.weight") || name.ends_with(".c_fc.weight");
}

// Other names of a tensor of the network, likelier ones first.
std::vector<Candidate> candidates(const std::string& name) {
  std::vector<Candidate> out{{name, is_gpt2_matrix(name)}};
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

// Whether the matrices that are called as GPT-2's are [in, out], as its Conv1D has them, and not [out, in], as PyTorch's Linear.
// The names do not say it, the shapes do: a bias is as long as there are outputs; without one, c_attn has three outputs per input.
bool is_conv1d(const WeightsFile& file) {
  bool in_out = false, out_in = false;
  for (const StoredTensor& t : file.tensors()) {
    if (!is_gpt2_matrix(t.name) || t.extents.size() != 2 || t.extents[0] == t.extents[1]) continue;
    const Index rows = t.extents[0], columns = t.extents[1];
    std::string name = t.name;
    replace_end(name, ".weight", ".bias");
    const int bias = file.find(name);
    Index outputs = 0;
    if (bias >= 0)
      outputs = elements_of(at(file.tensors(), bias).extents).value_or(0);
    else if (t.name.ends_with(".c_attn.weight") && (columns == 3 * rows || rows == 3 * columns))
      outputs = std::max(rows, columns);
    in_out = in_out || outputs == columns;
    out_in = out_in || outputs == rows;
  }
  return in_out && !out_in;
}

using Tied = std::map<std::string, std::string>;  // a further name of a tensor of the network -> the tensor

class Finder {
 public:
  Finder(const WeightsFile& file, const std::vector<StoredTensor>& wanted, const Tied& tied) : file_(file), tied_(tied) {
    const auto add = [&](const std::string& name, int tensor) {
      const std::string plain = unwrapped(name);
      by_name_.emplace(name, tensor);
      by_plain_name_.emplace(plain, tensor);
      by_underscores_.emplace(with_underscores(plain), tensor);
    };
    for (int i = 0; i < static_cast<int>(file.tensors().size()); i++) {
      const std::string& name = at(file.tensors(), i).name;
      add(name, i);
      is_gpt2_ = is_gpt2_ || name.ends_with(".c_attn.weight");
      is_bert_ = is_bert_ || name.ends_with(".attention.self.query.weight");
    }
    for (const auto& [name, tensor] : file.aliases()) {
      add(name, file.find(tensor));
      shared_.insert(file.find(tensor));
    }
    // A file that has everything as the network has it is read as it is, whatever the names are.
    const bool as_it_is = std::all_of(wanted.begin(), wanted.end(), [&](const StoredTensor& w) {
      const int tensor = find(w.name);
      return tensor >= 0 && has_form(at(file.tensors(), tensor).extents, w);
    });
    transposes_ = !as_it_is && is_conv1d(file);
  }

  // tensor -1: the file does not have it in any form.
  NamedSource find(const StoredTensor& wanted) const {
    std::vector<std::string> names{wanted.name};
    for (const auto& [other, tensor] : tied_)
      if (tensor == wanted.name) names.push_back(other);
    for (const std::string& name : names)
      for (const Candidate& c : candidates(name)) {
        const NamedSource source = source_of(c);
        if (source.tensor >= 0 && fits(source, wanted)) return source;
      }
    // The right name with another shape: the caller complains. A learned constant has its layer's name.
    if (const int same = find(wanted.name); same >= 0) return {same};
    std::string layer = wanted.name;
    return {replace_end(layer, ".weight", "") ? find(layer) : -1};
  }
  // Whether the file has this tensor for several names.
  bool is_shared(int tensor) const { return shared_.contains(tensor); }
  // Whether it has what the network has once under this name, too, with the same values.
  bool is_tied(const StoredTensor& stored) const {
    return std::any_of(tied_.begin(), tied_.end(), [&](const auto& its) {
      const int tensor = find(its.first);
      return tensor >= 0 && at(file_.tensors(), tensor).name == stored.name && are_equal(its.first, its.second);
    });
  }

  // The file's fused tensors that have this one as a part.
  std::vector<int> fused_forms(const StoredTensor& wanted) const {
    std::vector<int> out;
    for (const Candidate& c : candidates(wanted.name)) {
      if (c.parts == 1) continue;
      const NamedSource source = source_of(c);
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
  NamedSource source_of(const Candidate& c) const { return {find(c.name), c.gpt2 && transposes_, c.part, c.parts}; }
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
  bool fits(const NamedSource& source, const StoredTensor& wanted) const {
    Extents stored = at(file_.tensors(), source.tensor).extents;
    if (source.transposed && stored.size() == 2) std::swap(stored[0], stored[1]);
    if (stored.empty() || stored[0] % source.parts != 0) return stored.empty() && wanted.extents.empty();
    stored[0] /= source.parts;
    return has_form(stored, wanted);
  }

  const WeightsFile& file_;
  const Tied& tied_;
  std::set<int> shared_{};
  std::map<std::string, int> by_name_{}, by_plain_name_{}, by_underscores_{};
  bool is_gpt2_ = false, is_bert_ = false, transposes_ = false;
};

// Tensors that GPT-2's and BERT's files have beside their network's; the second names of tied ones only if the values are the same.
bool affects_nothing(const Finder& finder, const StoredTensor& t) {
  if (finder.is_tied(t)) return true;
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
  Renamed(std::unique_ptr<WeightsFile> file, std::vector<StoredTensor> tensors, std::vector<NamedSource> sources)
      : WeightsFile(file->name(), std::move(tensors)), file_(std::move(file)), sources_(std::move(sources)) {}

  std::vector<std::string> classes() const override { return file_->classes(); }
  NpyData read(int tensor) const override {
    const NamedSource& source = at(sources_, tensor);
    NpyData all = file_->read(source.tensor);
    if (source.is_plain()) return all;
    const Extents& stored = at(file_->tensors(), source.tensor).extents;
    std::visit([&](auto& values) { values = part_of(values, source, stored); }, all);
    return all;
  }
  std::vector<std::vector<double>> read_boxes(int tensor, const std::vector<Box>& boxes, const Extents& extents) const override {
    const NamedSource& source = at(sources_, tensor);
    return source.is_plain() ? file_->read_boxes(source.tensor, boxes, extents) : WeightsFile::read_boxes(tensor, boxes, extents);
  }

 private:
  template <class T>
  static std::vector<T> part_of(const std::vector<T>& values, const NamedSource& source, const Extents& stored) {
    const Index rows = source.transposed && stored.size() == 2 ? stored[1] : stored[0],
                columns = static_cast<Index>(values.size()) / std::max<Index>(1, rows), first = rows / source.parts * source.part;
    std::vector<T> out;
    out.reserve(values.size() / static_cast<std::size_t>(source.parts));
    for (Index r = first; r < first + rows / source.parts; r++)
      for (Index c = 0; c < columns; c++) out.push_back(at(values, source.transposed ? c * rows + r : r * columns + c));
    return out;
  }

  std::unique_ptr<WeightsFile> file_;
  std::vector<NamedSource> sources_;
};

}  // namespace

std::unique_ptr<WeightsFile> in_own_names(std::unique_ptr<WeightsFile> file, const std::vector<StoredTensor>& wanted,
                                          const Tied& tied) {
  const Finder finder(*file, wanted, tied);
  std::vector<StoredTensor> tensors;
  std::vector<NamedSource> sources;
  std::set<int> used, contradicted;
  for (const StoredTensor& w : wanted) {
    const NamedSource source = finder.find(w);
    if (source.tensor < 0) continue;
    if (source.is_plain() && used.contains(source.tensor) && !finder.is_shared(source.tensor)) continue;
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
