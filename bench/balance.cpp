// SPDX-License-Identifier: Apache-2.0
// How good are the cuts? Two ranks, one core each: the whole ISA beside a capped one. Per convolution and pass: both ranks measure
// tables at the same time, first in steps of 8, then around the best cut; balance_dim chooses a cut of the filters. Then all cuts
// in steps of 4, and of 1 around the chosen one, are timed with both ranks running at once, in interleaved rounds. The best cut is
// named by the odd rounds; it and the chosen one are timed by the even.
//   balance [--quick] [--json FILE] [--partner ISA]...
#include <motley/backend.h>
#include <motley/error.h>
#include <motley/partition.h>
#include <sched.h>
#include <spawn.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "base/json.h"
#include "mesh/mpi_session.h"
#include "plan/balance_dim.h"
#include "plan/candidate_sizes.h"
#include "profiler/measure_kernels.h"
#include "profiler/operand_memory.h"
#include "profiler/run_clock.h"

extern char** environ;

using namespace motley;

namespace {

struct Case {
  Index n, c, hw, f, window;
};
// Batch 8..32, channels 16..256, filters 48..256, sizes 7..32, windows 1, 3, 5.
constexpr Case kCases[] = {{8, 64, 28, 64, 3},    {8, 64, 28, 96, 3},  {8, 64, 28, 128, 3},   {16, 64, 14, 256, 3},
                           {16, 128, 14, 128, 3}, {8, 32, 32, 64, 3},  {32, 32, 16, 96, 3},   {32, 256, 7, 128, 3},
                           {16, 192, 7, 192, 3},  {32, 16, 32, 48, 3}, {16, 96, 14, 112, 3},  {32, 64, 8, 80, 3},
                           {8, 48, 28, 100, 3},   {32, 64, 28, 64, 1}, {32, 256, 14, 128, 1}, {16, 128, 28, 96, 1},
                           {32, 256, 7, 256, 1},  {8, 256, 14, 64, 1}, {8, 32, 28, 64, 5},    {16, 48, 14, 128, 5},
                           {8, 64, 14, 96, 5},    {32, 32, 8, 256, 5}};
constexpr std::size_t kQuick[] = {2, 7, 13, 18};  // with --quick
constexpr PassKind kPasses[] = {PassKind::forward, PassKind::backward_data, PassKind::backward_filter};
constexpr const char* kPassNames[] = {"forward", "backward_data", "backward_filter"};

struct Arguments {
  bool quick = false, rank = false;
  std::string json{}, isa{};
  std::vector<std::string> partners{};
};

// In the formats that plans choose: activations channels last, weights plain (the kernel packs them).
KernelSpec spec_of(const Case& k, PassKind pass, Index filters) {
  KernelSpec s;
  s.pass = pass;
  s.roles = {.n = k.n, .c = k.c, .h = k.hw, .w = k.hw, .f = filters, .r = k.window, .s = k.window, .p = k.hw, .q = k.hw};
  s.padding = {k.window / 2, k.window / 2, k.window / 2, k.window / 2};
  s.x_format = s.y_format = Format::channels_last;
  return s;
}

std::string shape_of(const Case& k) {
  auto text = [](Index v) { return std::to_string(v); };
  return "n" + text(k.n) + " c" + text(k.c) + " " + text(k.hw) + "x" + text(k.hw) + " -> f" + text(k.f) + " " + text(k.window) +
         "x" + text(k.window);
}

// Both ranks' numbers, on both ranks.
std::vector<std::vector<double>> of_both(Transport& transport, const std::vector<double>& mine) {
  std::vector<std::vector<double>> out;
  for (const auto& bytes : transport.gather_all(std::as_bytes(std::span(mine)))) {
    out.emplace_back(bytes.size() / sizeof(double));
    std::memcpy(out.back().data(), bytes.data(), bytes.size());
  }
  return out;
}

// A message each way: both ranks leave within a microsecond or two.
void meet(Transport& transport) {
  const int peer = 1 - transport.rank();
  const Transport::Ticket tickets[] = {transport.send(peer, 1, {}), transport.receive(peer, 1, {})};
  wait(transport, tickets, "the other rank of the bench");
}

class Bench {
 public:
  Bench(Transport& transport, Backend& backend, const Arguments& arguments)
      : transport_(transport), backend_(backend), quick_(arguments.quick) {}

  // One row; the same on both ranks.
  Json run(const Case& k, PassKind pass) {
    std::vector<Index> coarse = candidate_sizes(k.f);
    std::erase_if(coarse, [&](Index f) { return f % 8 != 0 && f != k.f; });
    points_.assign(2, {});
    measure(k, pass, coarse);
    const std::vector<Index> first = balance_dim(tables(k.f), k.f).parts;
    measure(k, pass, sizes_near(first[static_cast<std::size_t>(transport_.rank())], k.f));
    const SizeTables seconds = tables(k.f);
    const DimBalance chosen = balance_dim(seconds, k.f);
    list_cuts(k.f, chosen.parts[0]);
    const std::size_t c = index_of(chosen.parts), even = index_of(Partition::even(k.f, 2).sizes()),
                      proportional = index_of(proportional_parts(seconds, k.f));
    sweep(k, pass, {c, even, proportional});

    std::size_t best = c;
    for (std::size_t i = 0; i < cuts_.size(); i++)
      if (least(i, 1) < least(best, 1)) best = i;
    const double best_seconds = least(best, 0);
    Json row{Json::Object{}};
    row.set("shape", shape_of(k));
    row.set("pass", kPassNames[static_cast<std::size_t>(pass)]);
    row.set("chosen_parts", list(chosen.parts));
    row.set("best_parts", list(cuts_[best]));
    row.set("chosen_over_best", least(c, 0) / best_seconds);
    row.set("even_over_best", least(even, 0) / best_seconds);
    row.set("proportional_over_best", least(proportional, 0) / best_seconds);
    row.set("fast_alone_over_best", least(index_of({k.f, 0}), 0) / best_seconds);
    row.set("best_seconds", best_seconds);
    row.set("predicted_over_measured", chosen.seconds / least(c, 0));
    return row;
  }

 private:
  static Json list(const std::vector<Index>& parts) {
    Json::Array out;
    for (Index p : parts) out.emplace_back(p);
    return out;
  }

  // Adds this rank's times for these sizes to both ranks' points.
  void measure(const Case& k, PassKind pass, const std::vector<Index>& sizes) {
    std::vector<KernelSpec> specs;
    for (Index f : sizes) specs.push_back(spec_of(k, pass, f));
    MeasureOptions options;
    options.least_rounds = quick_ ? 5 : 7;
    options.most_rounds = quick_ ? 9 : 15;
    options.budget_seconds = 30;
    const Measurement mine = measure_kernels(backend_, transport_.rank(), specs, options, [&](Wish wish) {
      return static_cast<Wish>(agree(transport_, static_cast<int>(wish)).status);
    });
    if (!mine.fits)
      throw UserError("this machine is too slow or too busy for the bench: " + shape_of(k) + " takes more than 30 seconds");
    std::vector<double> numbers;
    for (const KernelPoint& p : mine.points) numbers.insert(numbers.end(), {static_cast<double>(p.spec.roles.f), p.seconds.min});
    const auto both = of_both(transport_, numbers);
    for (std::size_t r = 0; r < 2; r++)
      for (std::size_t i = 0; i < both[r].size(); i += 2) {
        double& least = points_[r].try_emplace(static_cast<Index>(both[r][i]), HUGE_VAL).first->second;
        least = std::min(least, both[r][i + 1]);
      }
  }
  SizeTables tables(Index size) const {
    SizeTables out;
    for (const auto& points : points_) out.push_back(step_table({points.begin(), points.end()}, size));
    return out;
  }

  // Steps of 4, and of 1 around what was chosen.
  void list_cuts(Index size, Index chosen) {
    std::set<Index> first{size};
    for (Index f = 0; f <= size; f += 4) first.insert(f);
    for (Index f = std::max(Index{0}, chosen - 8); f <= std::min(size, chosen + 8); f++) first.insert(f);
    cuts_.clear();
    for (Index f : first) cuts_.push_back({f, size - f});
  }

  std::size_t index_of(const std::vector<Index>& parts) {
    const auto at = std::find(cuts_.begin(), cuts_.end(), parts);
    if (at != cuts_.end()) return static_cast<std::size_t>(at - cuts_.begin());
    cuts_.push_back(parts);
    return cuts_.size() - 1;
  }

  // seconds_[cut][round] = the slower rank of a round in which both kept their cores.
  void sweep(const Case& k, PassKind pass, const std::vector<std::size_t>& keep) {
    OperandMemory memory;
    std::vector<std::unique_ptr<Kernel>> kernels;
    std::vector<KernelSpec> specs;
    for (const auto& parts : cuts_) {
      specs.push_back(spec_of(k, pass, parts[static_cast<std::size_t>(transport_.rank())]));
      kernels.push_back(specs.back().roles.f > 0 ? backend_.compile(specs.back()) : nullptr);
      memory.reserve(specs.back(), kernels.back() ? kernels.back()->workspace_bytes() : 0);
    }
    memory.allocate();
    std::vector<std::size_t> order(cuts_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    seconds_.assign(cuts_.size(), {});
    std::mt19937 random(1);  // the same order on both ranks
    const std::size_t wanted = quick_ ? 20 : 30;
    for (std::size_t round = 0; round < 4 * wanted && !order.empty(); round++) {
      std::shuffle(order.begin(), order.end(), random);
      std::vector<double> mine;
      for (std::size_t i : order) mine.push_back(timed(kernels[i].get(), memory.operands(specs[i]), memory.workspace()));
      const auto both = of_both(transport_, mine);
      for (std::size_t i = 0; i < order.size(); i++)
        if (const double slower = std::max(both[0][i], both[1][i]); std::isfinite(slower)) seconds_[order[i]].push_back(slower);
      leave_out(order, keep, wanted);
    }
  }

  // Those that have enough rounds, and after four those that are far from the best.
  void leave_out(std::vector<std::size_t>& order, const std::vector<std::size_t>& keep, std::size_t wanted) const {
    double best = HUGE_VAL;
    for (const auto& s : seconds_)
      if (!s.empty()) best = std::min(best, *std::min_element(s.begin(), s.end()));
    std::erase_if(order, [&](std::size_t i) {
      const auto& s = seconds_[i];
      const double far = std::find(keep.begin(), keep.end(), i) != keep.end() ? 3 : s.size() < 10 ? 1.25 : 1.1;
      return s.size() >= wanted || (s.size() >= 4 && *std::min_element(s.begin(), s.end()) > far * best);
    });
  }

  // Infinite: somebody else had the core, the round does not count.
  double timed(Kernel* kernel, const std::vector<void*>& operands, void* workspace) {
    if (kernel != nullptr) kernel->run(operands, workspace);
    meet(transport_);
    const RunClock clock;
    if (kernel != nullptr) kernel->run(operands, workspace);
    const RunTime took = clock.stop();
    return took.lost_core ? HUGE_VAL : took.wall;
  }

  // The least of the even (0) or odd (1) rounds.
  double least(std::size_t cut, std::size_t parity) const {
    double out = HUGE_VAL;
    for (std::size_t r = parity; r < seconds_[cut].size(); r += 2) out = std::min(out, seconds_[cut][r]);
    return out;
  }

  Transport& transport_;
  Backend& backend_;
  bool quick_;
  std::vector<std::map<Index, double>> points_{};  // per rank: filters -> seconds
  std::vector<std::vector<Index>> cuts_{};
  std::vector<std::vector<double>> seconds_{};
};

// The k-th core that this process may use; false: there are fewer.
bool stay_on_core(int k) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &allowed) && k-- == 0) {
      CPU_SET(core, &one);
      return sched_setaffinity(0, sizeof one, &one) == 0;
    }
  return false;
}

void print(const Json& row) {
  auto number = [&](const char* key) { return std::get<double>(row.find(key)->value); };
  auto text = [&](const char* key) { return std::get<std::string>(row.find(key)->value); };
  std::printf("%-30s %-15s %-6s %9s %9s  %6.3f %6.3f %6.3f %6.3f  %8.3f  %6.3f\n", text("shape").c_str(), text("pass").c_str(),
              text("partner_isa").c_str(), to_text(*row.find("chosen_parts")).c_str(), to_text(*row.find("best_parts")).c_str(),
              number("chosen_over_best"), number("even_over_best"), number("proportional_over_best"),
              number("fast_alone_over_best"), number("best_seconds") * 1e3, number("predicted_over_measured"));
  std::fflush(stdout);
}

// Rank 0 prints the rows and, with --json, writes them.
void run_rank(Transport& transport, const Arguments& arguments) {
  const bool pinned = stay_on_core(transport.rank());
  if (agree(transport, pinned ? 0 : 1).status != 0) throw UserError("bench/balance needs two cores, one per rank", Exit::device);
  Device device;
  device.name = arguments.isa.empty() ? "whole" : arguments.isa;
  device.isa = arguments.isa;
  const std::unique_ptr<Backend> backend = open_backend(device);
  Bench bench(transport, *backend, arguments);
  Json rows{Json::Array{}};
  std::vector<std::size_t> which(std::size(kCases));
  std::iota(which.begin(), which.end(), std::size_t{0});
  if (arguments.quick) which.assign(std::begin(kQuick), std::end(kQuick));
  for (std::size_t i : which)
    for (PassKind pass : kPasses) {
      Json row = bench.run(kCases[i], pass);
      row.set("partner_isa", arguments.partners.front());
      row.set("machine", backend->model());
      row.set("isa", backend->isa());
      row.set("library", backend->library());
      if (transport.rank() == 0) print(row);
      rows.push(std::move(row));
    }
  if (transport.rank() == 0 && !arguments.json.empty()) write_file(arguments.json, to_text(rows, 2) + "\n");
}

std::string own_path() {
  std::string path(4096, '\0');
  const auto n = readlink("/proc/self/exe", path.data(), path.size());
  if (n <= 0) throw UserError("cannot read /proc/self/exe");
  return path.substr(0, static_cast<std::size_t>(n));
}

// mpiexec with this program as its two ranks; its exit code.
int start_ranks(const Arguments& arguments, const std::string& partner, const std::string& json) {
  std::vector<std::string> rank{"-n", "1", own_path(), "--rank", "--partner", partner};
  if (arguments.quick) rank.push_back("--quick");
  if (!json.empty()) rank.insert(rank.end(), {"--json", json});
  std::vector<std::string> words{"mpiexec"};
  words.insert(words.end(), rank.begin(), rank.end());
  words.push_back(":");
  words.insert(words.end(), rank.begin(), rank.end());
  words.insert(words.end(), {"--isa", partner});
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  int status = 0;
  if (posix_spawnp(&child, "mpiexec", nullptr, nullptr, argv.data(), environ) != 0 || waitpid(child, &status, 0) != child)
    throw UserError("cannot start mpiexec: install mpich");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 70;
}

void summarise(const std::vector<Json>& rows, const std::string& partner) {
  for (const char* key : {"chosen_over_best", "even_over_best", "proportional_over_best", "fast_alone_over_best"}) {
    std::vector<double> v;
    for (const Json& row : rows)
      if (std::get<std::string>(row.find("partner_isa")->value) == partner) v.push_back(std::get<double>(row.find(key)->value));
    if (v.empty()) continue;
    std::sort(v.begin(), v.end());
    std::printf("beside %-8s %-24s median %.3f  max %.3f  (%zu rows)\n", partner.c_str(), key, v[v.size() / 2], v.back(), v.size());
  }
}

int run_all(const Arguments& arguments) {
  std::printf("%-30s %-15s %-6s %9s %9s  %6s %6s %6s %6s  %8s  %6s\n", "convolution", "pass", "beside", "chosen", "best", "chosen",
              "even", "prop.", "alone", "best ms", "pred.");
  std::fflush(stdout);
  std::vector<Json> rows;
  Json all{Json::Array{}};
  for (const std::string& partner : arguments.partners) {
    const std::string part = "/tmp/motley_balance_" + std::to_string(getpid()) + "_" + partner + ".json";
    if (const int code = start_ranks(arguments, partner, part); code != 0) return code;
    Complaints complaints;
    const auto json = read_json(part, read_file(part), complaints);
    complaints.raise();
    unlink(part.c_str());
    for (const Json& row : std::get<Json::Array>(json->value)) {
      rows.push_back(row);
      all.push(row);
    }
  }
  for (const std::string& partner : arguments.partners) summarise(rows, partner);
  if (!arguments.json.empty()) write_file(arguments.json, to_text(all, 2) + "\n");
  return 0;
}

Arguments read_arguments(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i];
    auto value = [&] {
      if (i + 1 >= argc) throw UserError(word + " needs a value", Exit::usage);
      return std::string(argv[++i]);
    };
    if (word == "--quick")
      out.quick = true;
    else if (word == "--rank")
      out.rank = true;
    else if (word == "--json")
      out.json = value();
    else if (word == "--isa")
      out.isa = value();
    else if (word == "--partner")
      out.partners.push_back(value());
    else
      throw UserError("unknown option " + word + "; known: --quick --json FILE --partner ISA", Exit::usage);
  }
  if (out.partners.empty()) out.partners = out.quick ? std::vector<std::string>{"avx2"} : std::vector<std::string>{"avx2", "sse41"};
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = read_arguments(argc, argv);
    if (!arguments.rank) return run_all(arguments);
    MpiSession session(argc, argv);
    try {
      run_rank(*session.transport(), arguments);
    } catch (const Error& e) {
      std::fprintf(stderr, "balance: %s\n", e.what());
      MpiSession::abort(static_cast<int>(e.code()));
    }
    session.finish();
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "balance: %s\n", e.what());
    return static_cast<int>(e.code());
  }
}
