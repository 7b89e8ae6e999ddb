// SPDX-License-Identifier: Apache-2.0
// Texts of kernels as kernels of one GPU. Their machine code is kept on disk for the next run.
#pragma once
#include <cuda_runtime_api.h>

#include <filesystem>
#include <map>
#include <vector>

#include "kernels/cuda/kernel_text.h"

namespace motley::cuda {

class Rtc final : public TextCompiler {
 public:
  // kept_in: folder of machine code of earlier runs; empty: none is kept.
  Rtc(std::string architecture, cudaStream_t stream, std::filesystem::path kept_in);
  std::shared_ptr<const Loaded> load(const std::string& text, const std::vector<std::string>& names) override;

 private:
  std::string file_name(const std::string& text) const;
  void keep(const std::vector<char>& code, const std::filesystem::path& file) const;
  std::string architecture_;
  cudaStream_t stream_;
  std::filesystem::path kept_in_;
  std::map<std::string, std::shared_ptr<const Loaded>> loaded_{};
};

}  // namespace motley::cuda
