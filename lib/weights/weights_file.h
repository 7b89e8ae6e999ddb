// SPDX-License-Identifier: Apache-2.0
// Files of named tensors: .safetensors, .npz, checkpoints. Complete tensors, row-major, in the order of the tensor's dims.
#pragma once
#include <motley/dims.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/npy.h"
#include "base/open_directory.h"

namespace motley {

struct StoredTensor {
  std::string name{};
  std::string dtype = "F32";  // as safetensors has it: F16, BF16, F32, F64, I32, I64
  std::vector<Index> extents{};
  bool operator==(const StoredTensor&) const = default;
};

// An open file whose structure has been checked; values are checked when they are read.
class WeightsFile {
 public:
  WeightsFile(std::string name, std::vector<StoredTensor> tensors, std::map<std::string, std::string> aliases = {})
      : name_(std::move(name)), tensors_(std::move(tensors)), aliases_(std::move(aliases)) {}
  virtual ~WeightsFile() = default;
  WeightsFile(const WeightsFile&) = delete;
  WeightsFile& operator=(const WeightsFile&) = delete;
  const std::string& name() const { return name_; }  // for messages
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // Further names of tensors: name -> tensor. A file of tied weights has each value once.
  const std::map<std::string, std::string>& aliases() const { return aliases_; }
  int find(const std::string& tensor) const;                       // -1: no tensor has this name; aliases do not count
  virtual std::vector<std::string> classes() const { return {}; }  // names, by number; empty: the file does not have them
  // A complete tensor; 16-bit floats are widened. UserError (65, 74).
  virtual NpyData read(int tensor) const = 0;
  // A tensor's values inside these boxes, row-major. The boxes refer to `extents`, which have as many elements. UserError (65, 74).
  virtual std::vector<std::vector<double>> read_boxes(int tensor, const std::vector<Box>& boxes,
                                                      const std::vector<Index>& extents) const;

 protected:
  [[noreturn]] void damaged(const std::string& what) const;  // UserError (65), which begins with the file's name

 private:
  std::string name_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> aliases_;
};

// Opens a file (its kind found by content), a checkpoint, or a run directory: its weights.safetensors, else its newest checkpoint.
// UserError: 66 it is not there; 65 it is none of these, or damaged.
std::unique_ptr<WeightsFile> open_weights(const std::filesystem::path& path);
std::unique_ptr<WeightsFile> open_safetensors(const std::filesystem::path& path);
std::unique_ptr<WeightsFile> open_npz(const std::filesystem::path& path);

// Writes tensor after tensor; the file appears whole once finished, else not at all. UserError (74).
class WeightsWriter {
 public:
  virtual ~WeightsWriter() = default;
  virtual void add(const NpyData& values) = 0;  // the next tensor
  virtual void finish() = 0;
};
using Metadata = std::map<std::string, std::string>;
Metadata metadata_of(const std::vector<std::string>& classes);  // "classes": a list in JSON; nothing where there are none
// tensors: all that will be added, in order; F32, F64, I32 or I64. metadata: written only by safetensors.
std::unique_ptr<WeightsWriter> new_safetensors(const FileIn& file, const std::vector<StoredTensor>& tensors,
                                               const Metadata& metadata);
// zip64_from: sizes and offsets from there on are written in 64 bits.
std::unique_ptr<WeightsWriter> new_npz(const FileIn& file, const std::vector<StoredTensor>& tensors,
                                       std::uint64_t zip64_from = 0xffffffff);

// Whether the tensor holds variances: running_var, as motley and PyTorch name it.
bool is_variance(const std::string& tensor);
// UserError (65): one of the variances is not a number from 0 on. What is fused may hide the NaN that its root is.
void require_variances(const std::string& file, const std::string& tensor, const NpyData& values);

constexpr const char* kMetadata = "__metadata__";  // what .safetensors files have beside their tensors
// Whether files of every kind can hold these names: each once, UTF-8, not kMetadata. UserError (65).
void require_names(const std::vector<StoredTensor>& tensors);

// Calls visit(at, length) for every row of the box along its last dim, row-major; at: the row's first global indices.
template <class F>
void for_each_run(const Box& box, F&& visit) {
  std::vector<Index> at;
  for (const Range& r : box) at.push_back(r.begin);
  const Index length = box.empty() ? 1 : box.back().size();
  for (Index left = volume(box); left > 0; left -= length) {
    visit(at, length);
    for (std::size_t d = box.empty() ? 0 : box.size() - 1; d-- > 0;) {
      if (++at[d] < box[d].end) break;
      at[d] = box[d].begin;
    }
  }
}
// Number of elements before `here` in the box, row-major.
inline Index position_in(const Box& box, const std::vector<Index>& here) {
  Index position = 0;
  for (std::size_t d = 0; d < box.size(); d++) position = position * box[d].size() + here[d] - box[d].begin;
  return position;
}

// Elements of a tensor; nothing: more than can be counted (or a negative extent).
std::optional<Index> elements_of(const std::vector<Index>& extents);
// Bytes of one element; 0: not a dtype that is read.
Index bytes_of_dtype(const std::string& dtype);
// "[3, 4]"
std::string to_text(const std::vector<Index>& extents);
// A name from a file, for messages: control characters are replaced and long names shortened.
std::string shown(const std::string& name);
// The hash of a tensor: of its dtype, its extents and its bytes.
std::uint64_t hash_of_tensor(const StoredTensor& tensor, std::span<const std::byte> bytes);
std::string to_hex(std::uint64_t hash);  // 16 digits
// Converts little-endian bytes to values; 16-bit floats are widened. As many values as the extents say.
NpyData values_of(const StoredTensor& tensor, std::string_view bytes);
std::span<const std::byte> bytes_in(const NpyData& values);

}  // namespace motley
