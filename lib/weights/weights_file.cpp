// SPDX-License-Identifier: Apache-2.0
#include "weights/weights_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/error.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/at.h"
#include "base/files.h"
#include "base/half.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "weights/checkpoint.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

template <class T>
std::vector<T> plain(std::string_view bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

std::vector<float> widened(std::string_view bytes, float (*wide)(std::uint16_t)) {
  std::vector<float> out;
  for (std::uint16_t half : plain<std::uint16_t>(bytes)) out.push_back(wide(half));
  return out;
}

}  // namespace

namespace {

// What a file of another kind is; empty: none that is known.
std::string other_kind(const std::string& start, const fs::path& path) {
  const std::string name = path.filename().string();
  if (start.starts_with("\x89HDF")) return "an HDF5 file (Keras)";
  if (start.starts_with("GGUF")) return "a GGUF file (llama.cpp)";
  if (name.ends_with(".onnx")) return "an ONNX file";
  if (name.ends_with(".msgpack")) return "a Flax file";
  if (name.ends_with(".tflite")) return "a TensorFlow Lite file";
  if (name.ends_with(".index.json")) return "the index of weights in several files";
  return "";
}

}  // namespace

int WeightsFile::find(const std::string& tensor) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const StoredTensor& t) { return t.name == tensor; });
  return found == tensors_.end() ? -1 : static_cast<int>(found - tensors_.begin());
}

void WeightsFile::damaged(const std::string& what) const {
  throw UserError(name_ + ": " + what, Exit::data);
}

std::vector<std::vector<double>> WeightsFile::read_boxes(int tensor, const std::vector<Box>& boxes,
                                                         const std::vector<Index>& extents) const {
  Box all;
  for (Index n : extents) all.push_back({0, n});
  std::vector<std::vector<double>> out(boxes.size());
  std::visit(
      [&](const auto& values) {
        for (std::size_t b = 0; b < boxes.size(); b++)
          for_each_run(boxes[b], [&](const std::vector<Index>& here, Index length) {
            const Index first = position_in(all, here);
            for (Index i = 0; i < length; i++) out[b].push_back(static_cast<double>(at(values, first + i)));
          });
      },
      read(tensor));
  return out;
}

std::unique_ptr<WeightsFile> open_weights(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (fs::exists(path / kManifest, ignored)) return open_checkpoint(path);
    if (fs::exists(path / kWeightsFile, ignored)) return open_safetensors(path / kWeightsFile);
    for (const fs::path& checkpoint : checkpoints_of(path))
      if (fs::exists(checkpoint / kMarker, ignored)) return open_checkpoint(checkpoint);
    std::vector<std::string> inside;  // a folder of another library's
    for (const auto& entry : fs::directory_iterator(path, ignored))
      if (const fs::path& file = entry.path(); file.extension() == ".safetensors" || file.extension() == ".npz")
        inside.push_back(file.filename().string());
    std::sort(inside.begin(), inside.end());
    throw UserError(path.string() + ": neither a checkpoint (" + kManifest + ") nor a run directory with " + kWeightsFile +
                        " or checkpoints" + (inside.empty() ? "" : "; it holds " + inside.front() + ": give that file"),
                    Exit::data);
  }
  const InputFile file(path);
  constexpr std::uint64_t kStart = 128;  // bytes, with the name of an archive's first file
  const std::string start = file.text(0, std::min(file.size(), kStart)), end = path.extension();
  const bool archive = start.starts_with("PK");
  if (start.starts_with("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46") || (archive && start.find("/data.pkl") != std::string::npos))
    throw UserError(path.string() + ": PyTorch's own format; write its tensors with safetensors.torch.save_file", Exit::data);
  if (const std::string kind = other_kind(start, path); !kind.empty())
    throw UserError(path.string() + ": " + kind + "; write its tensors with safetensors.torch.save_file, or to an .npz",
                    Exit::data);
  return archive || end == ".npz" ? open_npz(path) : open_safetensors(path);
}

void require_names(const std::vector<StoredTensor>& tensors) {
  std::set<std::string> names;
  for (const StoredTensor& t : tensors) {
    if (!is_utf8(t.name)) throw UserError(printable(t.name) + ": this tensor's name is not UTF-8; rename it", Exit::data);
    if (t.name == kMetadata) throw UserError(t.name + ": no tensor can have this name; rename it", Exit::data);
    if (!names.insert(t.name).second) throw UserError(shown(t.name) + ": two tensors have this name", Exit::data);
  }
}

bool is_variance(const std::string& tensor) {
  return tensor.ends_with("running_var");
}

void require_variances(const std::string& file, const std::string& tensor, const NpyData& values) {
  const auto each = [&](const auto& list) {
    for (const auto value : list)
      if (!(value >= 0))
        throw UserError(
            fmt::format("{}: {} has a value, {}, that is no variance; expected numbers from 0 on", file, shown(tensor), value),
            Exit::data);
  };
  std::visit(each, values);
}

std::optional<Index> elements_of(const std::vector<Index>& extents) {
  Index elements = 1;
  for (Index n : extents)
    if (n < 0 || __builtin_mul_overflow(elements, n, &elements)) return std::nullopt;
  return elements;
}

Index bytes_of_dtype(const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  return dtype == "F16" || dtype == "BF16" ? 2 : 0;
}

std::string to_text(const std::vector<Index>& extents) {
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

std::string shown(const std::string& name) {
  constexpr std::size_t kMost = 120;
  std::string out = name.size() > kMost ? name.substr(0, kMost) + "..." : name;
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
  return "\"" + out + "\"";
}

std::uint64_t hash_of_tensor(const StoredTensor& tensor, std::span<const std::byte> bytes) {
  Hash hash;
  hash.add(tensor.dtype).add(tensor.extents).bytes(bytes.data(), bytes.size());
  return hash.value();
}

std::string to_hex(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

NpyData values_of(const StoredTensor& tensor, std::string_view bytes) {
  if (tensor.dtype == "F64") return plain<double>(bytes);
  if (tensor.dtype == "I32") return plain<std::int32_t>(bytes);
  if (tensor.dtype == "I64") return plain<std::int64_t>(bytes);
  if (tensor.dtype == "F16") return widened(bytes, float_of_f16);
  if (tensor.dtype == "BF16") return widened(bytes, float_of_bf16);
  check(tensor.dtype == "F32", "dtypes are checked when a file is opened");
  return plain<float>(bytes);
}

std::span<const std::byte> bytes_in(const NpyData& values) {
  return std::visit([](const auto& list) { return std::as_bytes(std::span(list)); }, values);
}

}  // namespace motley
