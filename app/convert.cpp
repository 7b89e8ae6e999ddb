// SPDX-License-Identifier: Apache-2.0
// `motley convert IN OUT`: weights from one kind of file to another.
#include <fmt/format.h>
#include <motley/error.h>

#include "app/console.h"
#include "app/outputs.h"
#include "app/verbs.h"
#include "base/at.h"
#include "weights/checkpoint.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

std::unique_ptr<WeightsWriter> writer_for(const fs::path& out, const std::vector<StoredTensor>& tensors,
                                          const std::vector<std::string>& classes) {
  std::error_code ignored;
  if (out.extension() == ".safetensors") return new_safetensors(out, tensors, metadata_of(classes));
  if (out.extension() == ".npz") return new_npz(out, tensors);
  if (out.has_extension())
    throw UserError(out.string() +
                        ": expected a file name that ends in .safetensors or .npz, or a name without an extension: the directory "
                        "of a checkpoint",
                    Exit::usage);
  if (fs::exists(out, ignored))
    throw UserError(out.string() + " exists already; a checkpoint is written to a new directory, give another name", Exit::usage);
  return new_checkpoint(out, tensors, classes);
}

}  // namespace

int convert(const Options& options) {
  Console console(options, Console::Voice::speaks);
  const fs::path out = options.files.at(1);
  const auto in = open_weights(options.files.at(0));
  const bool trains = !out.has_extension();  // a checkpoint, from which training continues: without counters, masks
  std::vector<StoredTensor> tensors;
  std::vector<int> which;
  Index elements = 0;
  int widened = 0, left_out = 0;
  for (std::size_t i = 0; i < in->tensors().size(); i++) {
    StoredTensor t = in->tensors()[i];
    if (bytes_of_dtype(t.dtype) == 0 || (trains && t.dtype.starts_with("I"))) {
      left_out++;
      continue;
    }
    elements += *elements_of(t.extents);
    if (bytes_of_dtype(t.dtype) == 2) {
      t.dtype = "F32";
      widened++;
    }
    for (const auto& [name, tensor] : in->aliases())  // a tied weight: each name gets its values
      if (tensor == t.name) {
        tensors.push_back({name, t.dtype, t.extents});
        which.push_back(static_cast<int>(i));
      }
    tensors.push_back(std::move(t));
    which.push_back(static_cast<int>(i));
  }
  if (!trains) require_output("OUT", out, out.extension() == ".npz" ? OutputKind::npz : OutputKind::safetensors, Pipes::refuse);
  const auto writer = writer_for(out, tensors, in->classes());
  for (const int i : which) {
    const NpyData values = in->read(i);
    if (const std::string& name = at(in->tensors(), i).name; is_variance(name)) require_variances(in->name(), name, values);
    writer->add(values);
  }
  writer->finish();
  if (left_out > 0)
    console.say(LogLevel::info, fmt::format("note: without {} tensors of the file that hold no real numbers, such as "
                                            "num_batches_tracked or masks",
                                            left_out));
  if (widened > 0) console.say(LogLevel::info, fmt::format("note: {} tensors of 16-bit floats are written as F32", widened));
  print_result(fmt::format("{}: {} tensors, {} elements\n", out.string(), tensors.size(), elements));
  return 0;
}

}  // namespace motley::app
