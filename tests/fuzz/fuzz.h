// SPDX-License-Identifier: Apache-2.0
// What the harnesses share. Each is one file with take(); fuzz.cpp gives it libFuzzer's inputs.
#pragma once
#include <motley/error.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace motley::fuzz {

void take(std::string_view input);  // of a harness: one input, read by its parsers

// Ends the process unless it holds: libFuzzer keeps the input.
void require(bool holds, const std::string& what);
// A folder of this process, gone with it.
const std::filesystem::path& folder();
// Writes the bytes as this file of folder(); its path.
std::string file_of(const std::string& name, std::string_view bytes);

// An exit code that says what is wrong with a file: no bug of ours (70), nothing about ranks.
bool is_refusal(Exit code);
// Whether the parser takes the file; else it must refuse it with a UserError that has such a code and names the file. Whatever else
// it throws ends the process.
template <class Parser>
bool is_taken(const std::string& file, Parser&& parse) {
  try {
    parse();
    return true;
  } catch (const UserError& e) {
    require(is_refusal(e.code()), "exit code " + std::to_string(static_cast<int>(e.code())) + ": " + e.what());
    require(std::string_view(e.what()).find(file) != std::string_view::npos, std::string("does not name its file: ") + e.what());
    return false;
  }
}

}  // namespace motley::fuzz
