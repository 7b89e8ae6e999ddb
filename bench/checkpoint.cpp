// SPDX-License-Identifier: Apache-2.0
// What does a checkpoint cost training, and how fast is it loaded? ResNet-50 (224 x 224, batch 2) with Adam: 307 MB of parameters
// and slots, owned by one rank, or two that share the batch 65 to 35. exposed: begin_save() and finish_save() by the clock, beside
// a plain copy of what the rank owns into memory that it has used before; excess: how much longer the steps between them take
// together than as many others. load: a checkpoint of the other number of ranks, beside reading as many bytes of its files into
// memory that has been used before, from the page cache and from disk. Goals: exposed at most 1.5 copies, load at least half as
// fast as reading. checkpoint [--quick] [--directory DIR] [--json FILE]. Ranks are threads; the smallest of several times.
#include <fcntl.h>
#include <motley/error.h>
#include <motley/motley.h>
#include <motley/trainer.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/at.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "bench/support/networks.h"
#include "bench/support/reported.h"
#include "mesh/control.h"
#include "weights/checkpoint.h"

using namespace motley;

namespace {

namespace fs = std::filesystem;

Plan plan_of(const bench::Network& net, int ranks) {
  std::vector<Device> devices(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; r++) devices[static_cast<std::size_t>(r)].name = "rank " + std::to_string(r);
  LayoutRules rules;
  if (ranks == 2) rules = {{"batch", "all", Shares{{65, 35}}}};
  return balance(training(net.loss, Adam{}), Mesh({{"all", ranks}}, devices), rules, {});
}

std::map<std::string, ReadBox> feeds() {
  const ReadBox values = [](const Box&, std::span<std::byte> to) { std::fill(to.begin(), to.end(), std::byte{0}); };
  return {{"image", values}, {"label", values}};
}

// Of all ranks, after all have come.
template <class Work>
double timed(Runtime& rt, Work&& work) {
  static_cast<void>(agree(rt.transport(), 0));
  const double begin = seconds_now();
  work();
  static_cast<void>(agree(rt.transport(), 0));
  return seconds_now() - begin;
}

// The page cache holds nothing of them any more.
void forget(const std::vector<fs::path>& files) {
  for (const fs::path& path : files) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    check(fd >= 0 && ::fdatasync(fd) == 0 && ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "a file's pages can be dropped");
    ::close(fd);
  }
}

struct Times {
  double copy = 1e9, exposed = 1e9, first = 0, step = 0, excess = 0, written = 0;
  double load[2] = {1e9, 1e9}, read[2] = {1e9, 1e9};  // from the page cache, from disk
  Index bytes = 0;
};

Times times_of(Runtime& rt, Trainer& trainer, const fs::path& made, const fs::path& other, int rounds) {
  Times out;
  std::vector<std::byte> room;
  for (const StoredBox& box : trainer.state().stored()) out.bytes += box.as.bytes;
  room.resize(static_cast<std::size_t>(out.bytes));
  const std::vector<Index> owned = control::all_of(rt.transport(), out.bytes);
  std::vector<double> steps;
  for (int s = 0; s < 2 * rounds + 2; s++) {
    const double seconds = timed(rt, [&] { trainer.step_named(feeds()); });
    if (s >= 2) steps.push_back(seconds);
  }
  std::sort(steps.begin(), steps.end());
  out.step = steps[steps.size() / 2];
  std::vector<double> excess, written;
  for (int round = 0; round < rounds; round++) {
    out.copy = std::min(out.copy, timed(rt, [&] {
                          std::size_t at = 0;
                          for (const StoredBox& box : trainer.state().stored()) {
                            std::memcpy(room.data() + at, box.memory.get(), static_cast<std::size_t>(box.as.bytes));
                            at += static_cast<std::size_t>(box.as.bytes);
                          }
                        }));
    const double begun = seconds_now(), copying = timed(rt, [&] { trainer.begin_save(made); });
    double beside = 0;
    for (bool saved = false; !saved;) beside += timed(rt, [&] { saved = trainer.step_named(feeds()).saved; }) - out.step;
    const double finishing = timed(rt, [&] { trainer.finish_save(); });
    if (round == 0) out.first = copying + finishing;
    if (round > 0) out.exposed = std::min(out.exposed, copying + finishing);
    excess.push_back(beside);
    written.push_back(seconds_now() - begun);
  }
  std::sort(excess.begin(), excess.end());
  std::sort(written.begin(), written.end());
  out.excess = excess[excess.size() / 2];
  out.written = written[written.size() / 2];
  std::vector<fs::path> files;
  for (int r = 0; fs::exists(other / shard_name(r)); r++) files.push_back(other / shard_name(r));
  // The ranks' files one after the other are as long as what the ranks own: rank r reads its own share of them.
  Index begin = 0;
  for (int r = 0; r < rt.rank(); r++) begin += at(owned, r);
  const auto read = [&] {
    std::uint64_t skip = static_cast<std::uint64_t>(begin);
    std::span<std::byte> left(room);
    for (const fs::path& path : files) {
      const InputFile file(path);
      const std::uint64_t from = std::min(skip, file.size()), n = std::min<std::uint64_t>(file.size() - from, left.size());
      file.read(from, left.first(n));
      left = left.subspan(n);
      skip -= from;
    }
  };
  for (int from_disk : {0, 1})
    for (int round = 0; round < rounds; round++) {
      if (from_disk != 0 && rt.rank() == 0) forget(files);
      out.read[from_disk] = std::min(out.read[from_disk], timed(rt, read));
      if (from_disk != 0 && rt.rank() == 0) forget(files);
      out.load[from_disk] = std::min(out.load[from_disk], timed(rt, [&] { trainer.load(other); }));
    }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::reported("checkpoint", [&] {
    int rounds = 9;
    std::string json;
    fs::path directory = fs::temp_directory_path() / ("motley-bench-" + std::to_string(::getpid()));
    for (int i = 1; i < argc; i++) {
      const std::string flag = argv[i];
      if (flag == "--quick")
        rounds = 3;
      else if (flag == "--directory" && i + 1 < argc)
        directory = argv[++i];
      else if (flag == "--json" && i + 1 < argc)
        json = argv[++i];
      else
        throw UserError("unknown option " + flag + " (known: --quick, --directory DIR, --json FILE)", Exit::usage);
    }
    const bench::Network net = bench::network("resnet50", 2);
    const Plan plans[] = {plan_of(net, 1), plan_of(net, 2)};
    for (int ranks : {1, 2})
      run_ranks_in_memory(ranks, [&](Runtime& rt) { Trainer(rt, plans[ranks - 1]).save(directory / std::to_string(ranks)); });
    std::printf(
        "| ranks | bytes of rank 0 | copy, ms | exposed, ms | exposed / copy | first time | excess of steps, ms | a step, ms | "
        "written after, ms | load, ms | read / load | load from disk, ms | read / load "
        "|\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    Json rows{Json::Array{}};
    for (int ranks : {1, 2}) {
      Times t;
      run_ranks_in_memory(ranks, [&](Runtime& rt) {
        Trainer trainer(rt, plans[ranks - 1]);
        const Times its = times_of(rt, trainer, directory / "made", directory / std::to_string(3 - ranks), rounds);
        if (rt.rank() == 0) t = its;
      });
      std::printf("| %d | %lld | %.1f | %.1f | %.2f | %.1f | %.0f | %.0f | %.0f | %.1f | %.2f | %.0f | %.2f |\n", ranks,
                  static_cast<long long>(t.bytes), 1e3 * t.copy, 1e3 * t.exposed, t.exposed / t.copy, 1e3 * t.first, 1e3 * t.excess,
                  1e3 * t.step, 1e3 * t.written, 1e3 * t.load[0], t.read[0] / t.load[0], 1e3 * t.load[1], t.read[1] / t.load[1]);
      Json row;
      row.set("ranks", ranks).set("bytes", t.bytes).set("copy_seconds", t.copy).set("exposed_seconds", t.exposed);
      row.set("first_exposed_seconds", t.first).set("excess_seconds", t.excess).set("step_seconds", t.step);
      row.set("written_seconds", t.written).set("load_seconds", t.load[0]).set("read_seconds", t.read[0]);
      row.set("load_from_disk_seconds", t.load[1]).set("read_from_disk_seconds", t.read[1]);
      rows.push(std::move(row));
    }
    fs::remove_all(directory);
    if (!json.empty()) std::ofstream(json) << to_text(rows, 1) << "\n";
    return 0;
  });
}
