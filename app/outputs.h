// SPDX-License-Identifier: Apache-2.0
// The one gate for files that a command writes because its user named them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/json.h"

namespace motley::app {

enum class OutputKind : std::uint8_t {
  plan,
  picture,
  mesh,
  model,
  layout,
  profile,
  trace,
  page,
  array,
  table,
  predictions,
  safetensors,
  npz,
  svm_model,
  labels
};

// To be called before the file is written, and before anything is measured or trained for it, once all that the command reads has
// been opened. UserError: 64 this process has read that file (a profile may be updated), or the file exists, is not empty and is of
// another kind; 74 no file can be written there. option: "-o", as in the message.
void require_output(const std::string& option, const std::filesystem::path& file, OutputKind kind, Pipes pipes = Pipes::accept);
// Likewise for the folder of --dump: absent, empty, or with nothing but what an earlier dump has written, and none of that was read
// by this process or is a link. UserError (64)
void require_dump_folder(const std::filesystem::path& folder);
// That the file is none of those that this job, or a part of one, names, whether they have been read or not. UserError (64)
void require_not_in_job(const std::string& option, const std::filesystem::path& file, const Json& job);

}  // namespace motley::app
