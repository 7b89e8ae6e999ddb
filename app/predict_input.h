// SPDX-License-Identifier: Apache-2.0
// What predict's --input names: a picture, a folder of pictures, an array, or tokens.
#pragma once
#include <motley/data.h>
#include <motley/runtime.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "app/rank_verbs.h"
#include "config/model.h"

namespace motley::app {

// By the model's inputs: FILE is for the first one. UserError (64): an input that is not given, or given twice.
std::map<std::string, std::filesystem::path> input_files(const Options& options, const ModelSpec& model);
// Before anything is measured. UserError: 66 not there, or a folder without pictures; 65 neither a picture nor an array nor tokens.
void check_input(const std::filesystem::path& input, const Job& job);

struct PredictInput {
  std::shared_ptr<const Dataset> samples{};  // normalized
  std::vector<std::string> names{};          // of samples that are pictures
};
// Collective. UserError, on all ranks: 64, 66; 65 damaged, or other sizes than the model's inputs.
PredictInput predict_input(Runtime& rt, const Task& task, const Model& model);

}  // namespace motley::app
