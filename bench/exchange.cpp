// SPDX-License-Identifier: Apache-2.0
// What does an exchange between two ranks of one host cost, compared with MPI's collective? Both run alternately in one run, each
// timed over many consecutive exchanges, until every rank can read its whole result through one pointer. motley's side is a plan
// that consists of the exchange alone, run by the executor like any step.
//   exchange [--quick] [--json FILE] [--apart]
// --apart: by messages, as between two hosts; tests/laws/two_hosts.py build/bench/exchange --rank --apart makes them two (RANKS=2).
#include <motley/backend.h>
#include <motley/error.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "bench/support/exchanges.h"
#include "bench/support/mpi_collectives.h"
#include "bench/support/mpi_ranks.h"
#include "bench/support/reported.h"

using namespace motley;

namespace {

struct Arguments {
  bool quick = false, rank = false, apart = false;
  std::string json{};
};

double slowest(Transport& transport, double mine) {
  double most = 0;
  for (const auto& bytes : transport.gather_all(std::as_bytes(std::span(&mine, 1)))) {
    double its = 0;
    std::memcpy(&its, bytes.data(), sizeof its);
    most = std::max(most, its);
  }
  return most;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds of one exchange, the slower rank's, over `count` in a row after one that finds the other side's data in the caches.
double timed(Transport& transport, int count, const std::function<void()>& exchange) {
  exchange();
  static_cast<void>(slowest(transport, 0));
  const double start = seconds_now();
  for (int i = 0; i < count; i++) exchange();
  return slowest(transport, (seconds_now() - start) / count);
}

// MPI's call for the same data, from its own buffers to its own.
struct Peer {
  bench::Case what;
  int rank;
  std::vector<Index> parts = bench::parts_of(what);
  std::vector<float> in, out;
  Peer(const bench::Case& c, int r) : what(c), rank(r) {
    const bool whole = c.kind != bench::Kind::all_gather;
    in.assign(static_cast<std::size_t>(whole ? c.elements : parts[static_cast<std::size_t>(r)]), 1.0F);
    out.assign(static_cast<std::size_t>(c.elements), 0.0F);
  }
  void run() {
    if (what.kind == bench::Kind::all_reduce)
      mpi_collectives::all_reduce(in, out);
    else if (what.kind == bench::Kind::all_gather)
      mpi_collectives::all_gather(in, out, parts);
    else if (what.kind == bench::Kind::reduce_scatter)
      mpi_collectives::reduce_scatter(in, out, parts);
    else
      mpi_collectives::send_receive(1 - rank, in, out);
  }
};

Json measure(Transport& transport, Backend& backend, const bench::Case& c, bool quick) {
  bench::Exchange ours(c, backend, transport);
  Peer theirs(c, transport.rank());
  auto run_ours = [&] { ours.run(); };
  auto run_theirs = [&] { theirs.run(); };
  static_cast<void>(timed(transport, 2, run_ours));
  static_cast<void>(timed(transport, 2, run_theirs));
  const double once = std::max(timed(transport, 3, run_ours), timed(transport, 3, run_theirs));
  const int count = static_cast<int>(std::clamp(2e-3 / once, 4.0, 1000.0)), rounds = quick ? 7 : 21;
  std::vector<double> motley, mpi;
  for (int i = 0; i < rounds; i++) {
    motley.push_back(timed(transport, count, run_ours));
    mpi.push_back(timed(transport, count, run_theirs));
  }
  ours.check_result();
  Json row{Json::Object{}};
  row.set("collective", bench::name_of(c.kind));
  row.set("bytes", static_cast<std::int64_t>(c.elements) * 4);
  row.set("parts", std::to_string(c.share) + "/" + std::to_string(100 - c.share));
  row.set("motley_seconds", median(motley));
  row.set("mpi_seconds", median(mpi));
  row.set("ratio", median(mpi) / median(motley));
  row.set("hosts", c.apart ? "two" : "one");
  row.set("machine", backend.model());
  row.set("library", "MPICH");
  return row;
}

void run_rank(Transport& transport, const Arguments& arguments) {
  if (agree(transport, bench::stay_on_core(static_cast<std::size_t>(transport.rank())) ? 0 : 1).status != 0)
    throw UserError("bench/exchange needs two cores, one per rank", Exit::device);
  if (!arguments.apart && transport.hosts()[0] != transport.hosts()[1])
    throw UserError("the ranks cannot map each other's memory here; there is nothing to measure", Exit::device);
  const auto backend = open_backend(Device{});
  Json rows{Json::Array{}};
  if (transport.rank() == 0)
    std::printf("%-15s %10s %6s  %12s %12s  %6s\n", "collective", "bytes", "parts", "motley us", "MPI us", "ratio");
  using bench::Kind;
  for (const auto& [kind, share] : {std::pair<Kind, Index>{Kind::all_reduce, 50},
                                    {Kind::all_gather, 50},
                                    {Kind::all_gather, 90},
                                    {Kind::reduce_scatter, 50},
                                    {Kind::halo, 50}})
    for (Index bytes = 1024; bytes <= (Index{64} << 20); bytes *= arguments.quick ? 64 : 4) {
      Json row = measure(transport, *backend, {kind, bytes / 4, share, arguments.apart}, arguments.quick);
      if (transport.rank() == 0) {
        auto number = [&](const char* key) { return std::get<double>(row.find(key)->value); };
        std::printf("%-15s %10lld %6s  %12.2f %12.2f  %6.2f\n", bench::name_of(kind).c_str(), static_cast<long long>(bytes),
                    (std::to_string(share) + "/" + std::to_string(100 - share)).c_str(), number("motley_seconds") * 1e6,
                    number("mpi_seconds") * 1e6, number("ratio"));
        std::fflush(stdout);
      }
      rows.push(std::move(row));
    }
  if (transport.rank() == 0 && !arguments.json.empty()) write_file(arguments.json, to_text(rows, 2) + "\n");
}

int start_ranks(int argc, char** argv) {
  std::vector<std::string> words{"-n", "2", bench::own_path(), "--rank"};
  words.insert(words.end(), argv + 1, argv + argc);
  return bench::run_mpiexec(std::move(words));
}

Arguments read_arguments(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i];
    if (word == "--quick")
      out.quick = true;
    else if (word == "--rank")
      out.rank = true;
    else if (word == "--apart")
      out.apart = true;
    else if (word == "--json" && i + 1 < argc)
      out.json = argv[++i];
    else
      throw UserError("unknown option " + word + "; known: --quick --apart --json FILE", Exit::usage);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::reported("exchange", [&] {
    const Arguments arguments = read_arguments(argc, argv);
    if (!arguments.rank) return start_ranks(argc, argv);
    return bench::on_rank("exchange", argc, argv, [&](Transport& transport) { run_rank(transport, arguments); });
  });
}
