// SPDX-License-Identifier: Apache-2.0
// seeds FOLDER: writes FOLDER/HARNESS/*, small valid files as motley writes them, for the harnesses to begin with.
#include <motley/error.h>
#include <motley/plan.h>
#include <motley/profile.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>

#include "base/json.h"
#include "plan/plan_file.h"
#include "run/trace_summary.h"
#include "tests/fuzz/planned.h"
#include "train/run_files.h"
#include "weights/checkpoint.h"

using namespace motley;
namespace fs = std::filesystem;

namespace {

using Values = std::vector<NpyData>;

const std::vector<StoredTensor>& tensors() {
  static const std::vector<StoredTensor> list{
      {"conv.weight", "F32", {2, 1, 2, 2}}, {"bn.running_var", "F64", {2}}, {"steps", "I64", {}}, {"none", "I32", {0, 3}}};
  return list;
}

void add_all(WeightsWriter& writer) {
  for (const NpyData& values : Values{std::vector<float>{1, -2, 3, 4, 5, 6, 7, 0.5F}, std::vector<double>{1, 2},
                                      std::vector<std::int64_t>{7}, std::vector<std::int32_t>{}})
    writer.add(values);
  writer.finish();
}

void weights(const fs::path& to) {
  add_all(*new_safetensors(to / "all.safetensors", tensors(), metadata_of({"cat", "dog"})));
  add_all(*new_npz(to / "all.npz", tensors()));
  add_all(*new_npz(to / "zip64.npz", tensors(), 0));
  write_npy(to / "f4.npy", {2, 2}, std::vector<float>{1, 2, 3, 4});
  write_npy(to / "i8.npy", {3}, std::vector<std::int64_t>{0, 1, 2});
}

// One file of 64 bytes, as the harness has it.
void checkpoint(const fs::path& to) {
  const fs::path made = to / "made";
  const auto writer = new_checkpoint(made, {{"w", "F32", {4, 4}}}, {"cat", "dog"});
  writer->add(std::vector<float>(16));
  writer->finish();
  fs::rename(made / kManifest, to / kManifest);
  fs::remove_all(made);
}

void runs(const fs::path& to) {
  TrainSummary summary;
  summary.steps = 3;
  summary.seconds = summary.train_loss = summary.test_accuracy = 0.5;
  summary.ranks.resize(2);
  summary.ranks[0].busy_seconds = 0.25;
  summary.ranks[0].bytes_counted = 4096;
  summary.copies_differ = {"w"};
  summary.classes = {"cat", "dog"};
  write_run_json(to, summary);
  TraceSummary trace;
  trace.first_step = 2, trace.last_step = 4, trace.steps = 3;
  trace.step = {0.1, 0.2, 0.3};
  trace.predicted_step = 0.15;
  trace.ranks = {{.device = "cpu", .step = {0.1, 0.2, 0.3}, .rows = {{"conv2d_1", "conv2d forward", {0.1, 0.1, 0.1}, 0.05}}}};
  save(trace, to / kStepTimesFile);
  write_file((to / "metrics.jsonl").string(),
             "{\"step\": 1, \"epoch\": 0, \"loss\": 2.5}\n{\"step\": 2, \"epoch\": 0, \"loss\": 1.5, \"test_loss\": 1}\n");
}

void profile(const fs::path& to) {
  Profile out;
  out.devices = {{.name = "d0", .kind = "cpu", .model = "model", .isa = "avx2", .library = "library 1", .host = "a"},
                 {.name = "d1", .kind = "cuda"}};
  KernelSpec conv;
  conv.roles = {.n = 2, .c = 2, .h = 8, .w = 8, .f = 2, .r = 1, .s = 1, .p = 8, .q = 8};
  KernelSpec map;
  map.op = KernelOp::map;
  map.extents = {64};
  map.operands = {{DType::f32, {1}}, {DType::f32, {1}}};
  out.add({0, conv, {1e-3, 2e-3, 3e-3, 5}, "brgemm", 2, 128});
  out.add({1, map, {1e-6, 1e-6, 1e-6, 5}, "loops"});
  out.links = {{0, 1, {{1024, 1e-6, 1e9}, {Index{1} << 40, 1e-6, 2e9}}, {{1024, 1e-7, 1e10}}}};
  out.device_links = {{1, {{1024, 1e-6, 1e9}}, {{1024, 1e-6, 1e9}}}};
  out.complete_for = {{"0123456789abcdef", 2}};
  out.notes = {"contended"};
  out.save(to / "profile.json");
}

void data(const fs::path& to) {
  const std::string images("\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x01\x07", 17), record(3073, '\x01');
  write_file((to / "images.idx").string(), images);
  write_file((to / "labels.idx").string(), images.substr(0, 3) + std::string("\x01\0\0\0\x01\x05", 6));
  write_file((to / "batch.bin").string(), record);
  write_file((to / "tokens.bin").string(), std::string("\x01\0\x02\0\x03\0\x04\0\x05\0\x06\0\x07\0\x08\0", 16));
  write_npy(to / "labels.npy", {3}, std::vector<std::int64_t>{0, 1, 2});
  gzFile packed = gzopen((to / "images.gz").c_str(), "wb");
  if (packed == nullptr || gzwrite(packed, images.data(), static_cast<unsigned>(images.size())) == 0 || gzclose(packed) != Z_OK)
    throw UserError(to.string() + ": cannot write images.gz", Exit::io);
}

void plan(const fs::path& to) {
  const fuzz::SmallStep small;
  for (const char* dim : {"batch", "filters", "rows"})
    balance(small.step, small.mesh, LayoutRules{{dim, "all"}}, {}).save(to / (std::string(dim) + ".json"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return static_cast<int>(Exit::usage);
  try {
    const std::pair<const char*, void (*)(const fs::path&)> all[]{
        {"weights", weights}, {"checkpoint", checkpoint}, {"runs", runs}, {"profile", profile}, {"data", data}, {"plan", plan}};
    for (const auto& [name, write] : all) {
      const fs::path to = fs::path(argv[1]) / name;
      fs::create_directories(to);
      write(to);
    }
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return static_cast<int>(e.code());
  }
  return 0;
}
