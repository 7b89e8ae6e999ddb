// SPDX-License-Identifier: Apache-2.0
// What does training a support vector machine cost beside libsvm's svm-train on one rank, and what do two unequal ranks gain? Two
// classes of Fashion-MNIST (2 and 4, values from 0 to 1), rbf kernel, c = 1, gamma = 0.02, epsilon = 1e-3, 100 MiB of kernel rows
// on each rank as in svm-train. Whole commands of one rank, in turn with svm-train's: seconds by the clock, and of processor time.
// Two ranks with one core each, one with the full ISA and one with a capped one: seconds of training, reading and measuring apart,
// and those of each alone, in turn. Shares: the chosen one and four on each side of it, 1/32 of the samples apart, as seconds of
// training. Where other processes use the cores too, the processor time of the busiest rank's work (busy) says what the clock does
// not. Goals: at most 1.0 times svm-train (better 0.5); speed of both over the sum of each alone 0.85; chosen over best share 1.05.
//   svm [--quick] [--json FILE] [--samples N] [--rounds N] [--only libsvm|meetings|elimination|avx2|sse41]
#include <fmt/format.h>
#include <motley/data_files.h>
#include <motley/error.h>
#include <motley/svm.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "bench/support/launched.h"
#include "bench/support/reported.h"
#include "svm/meeting.h"

using namespace motley;

namespace {

struct Arguments {
  std::string json{};
  Index samples = 12000;
  int rounds = 3;      // of which the medians count
  std::string only{};  // one part: libsvm, meetings, elimination, or the ISA of a slower rank; empty: all
};

constexpr double kGamma = 0.02;
constexpr Index kCacheMib = 100;
constexpr Index kShareSteps = 4, kShareUnit = 32;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double processor_seconds(int who) {
  rusage use{};
  getrusage(who, &use);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

void write_samples(const std::string& file, Index samples) {
  const auto data = load_fashion_mnist().train;
  std::vector<double> values(784);
  std::string text;
  for (Index s = 0, written = 0; s < data->samples() && written < samples; s++) {
    const int label = data->label(s);
    if (label != 2 && label != 4) continue;
    written++;
    data->read(s, {{0, 1}, {0, 28}, {0, 28}}, values);
    text += fmt::format("{}", label);
    for (std::size_t k = 0; k < values.size(); k++)
      if (values[k] != 0) text += fmt::format(" {}:{:.6g}", k + 1, values[k]);
    text += '\n';
  }
  write_file(file, text);
}

Device device_of(const std::string& name, const std::string& isa) {
  Device out;
  out.name = name;
  out.isa = isa;
  return out;
}

// What the ranks do: FILE of samples, OUT, ISA of each rank, share of rank 0 in percent (0: measured), elimination.
int on_rank(int argc, char** argv, const std::vector<std::string>& words) {
  return run(argc, argv, [&](Runtime& rt) {
    const double start = seconds_now();
    std::vector<Device> devices;
    for (std::size_t w = 4; w < words.size(); w++)
      devices.push_back(device_of("rank " + std::to_string(w - 4), words[w] == "full" ? "" : words[w]));
    const Mesh mesh({{"all", static_cast<int>(devices.size())}}, devices);
    const svm::Data data = svm::Data::load(words[0]);
    svm::Options options{.kernel = {.gamma = kGamma}, .cache_bytes = kCacheMib << 20};
    const double share = std::stod(words[2]);
    if (share > 0) options.shares = {share, 1 - share};
    options.shrink = words[3] == "never"   ? svm::Shrink::never
                     : words[3] == "early" ? svm::Shrink::early
                     : words[3] == "lazy"  ? svm::Shrink::lazy
                                           : svm::Shrink::adaptive;
    const svm::Result result = svm::train(rt, mesh, data, options);
    if (rt.rank() != 0) return;
    result.model.save(words[1] + ".model");
    const svm::Machine& m = result.machines.front();
    Json row{Json::Object{}};
    row.set("train_seconds", m.seconds)
        .set("command_seconds", seconds_now() - start)
        .set("processor_seconds", processor_seconds(RUSAGE_SELF));
    row.set("objective", m.objective).set("support_vectors", m.support_vectors).set("iterations", m.iterations);
    row.set("kernel_values", m.kernel_values)
        .set("share", static_cast<double>(result.ranks.front().samples) / static_cast<double>(m.samples));
    double waiting = 0;  // the least of the ranks: what the meetings themselves take
    for (const svm::RankReport& its : result.ranks)
      waiting = waiting == 0 ? its.waiting_seconds : std::min(waiting, its.waiting_seconds);
    double busy = 0;  // of the busiest rank
    for (const svm::RankReport& its : result.ranks) busy = std::max(busy, its.processor_seconds + its.step_seconds);
    row.set("busy_seconds", busy);
    row.set("waiting_microseconds_per_iteration", 1e6 * waiting / static_cast<double>(m.iterations));
    row.set("machine", rt.backend(mesh).model()).set("isa", rt.backend(mesh).isa()).set("library", rt.backend(mesh).library());
    write_file(words[1], to_text(row) + "\n");
  });
}

// OUT, microseconds of a meeting of two ranks: least and median over batches.
int on_meeting_rank(int argc, char** argv, const std::string& out) {
  return run(argc, argv, [&](Runtime& rt) {
    constexpr int kBatches = 400, kMeetings = 100;
    struct Frame {
      std::array<std::byte, 104> bytes{};  // what a rank has to say when the first sample is chosen
    };
    svm::Meeting meeting(rt.transport());
    std::vector<double> seconds;
    for (int batch = 0; batch < kBatches; batch++) {
      const double start = seconds_now();
      for (int k = 0; k < kMeetings; k++) static_cast<void>(meeting.all(Frame{}));
      seconds.push_back((seconds_now() - start) / kMeetings);
    }
    if (rt.rank() != 0) return;
    Json row{Json::Object{}};
    row.set("least_microseconds", 1e6 * *std::min_element(seconds.begin(), seconds.end()))
        .set("microseconds", 1e6 * median(seconds));
    write_file(out, to_text(row) + "\n");
  });
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments)
      : arguments_(arguments), folder_(std::filesystem::temp_directory_path() / ("motley-svm-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    write_samples(file("samples"), arguments.samples);
  }
  ~Bench() { std::filesystem::remove_all(folder_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void beside_libsvm() {
    std::vector<double> theirs, their_processor, ours, our_processor;
    Json last;
    for (int round = 0; round < rounds(); round++) {
      const double start = seconds_now(), before = processor_seconds(RUSAGE_CHILDREN);
      const std::string command = fmt::format("svm-train -q -s 0 -t 2 -c 1 -g {} -e 0.001 -m {} {} {}", kGamma, kCacheMib,
                                              file("samples"), file("libsvm.model"));
      if (const int status = std::system(command.c_str()); status != 0)
        return static_cast<void>(std::printf("svm-train is not here, or failed: not compared with it\n"));
      theirs.push_back(seconds_now() - start);
      their_processor.push_back(processor_seconds(RUSAGE_CHILDREN) - before);
      last = one({"full"}, 0, "adaptive");
      ours.push_back(number(last, "command_seconds"));
      our_processor.push_back(number(last, "processor_seconds"));
    }
    Json row = begun("one rank beside svm-train", last);
    row.set("seconds", median(ours)).set("libsvm_seconds", median(theirs)).set("ratio", median(ours) / median(theirs));
    row.set("processor_seconds", median(our_processor)).set("libsvm_processor_seconds", median(their_processor));
    done(row);
  }

  void meetings() {
    Json row;
    if (const int code =
            bench::launched({device_of("a", ""), device_of("b", "")}, {"--meeting", file("row.json")}, file("row.json"), row);
        code != 0)
      throw Error(Exit::internal, "the ranks ended with code " + std::to_string(code));
    done(Json(Json::Object{})
             .set("row", "a meeting of two ranks")
             .set("microseconds", number(row, "microseconds"))
             .set("least_microseconds", number(row, "least_microseconds")));
  }

  void elimination() {
    for (const char* shrink : {"never", "lazy", "adaptive", "early"}) {
      const Json its = one({"full"}, 0, shrink);
      done(begun(std::string("one rank, ") + shrink, its)
               .set("seconds", number(its, "train_seconds"))
               .set("processor_seconds", number(its, "processor_seconds")));
    }
  }

  void two_ranks(const std::string& isa) {
    std::vector<double> fast, slow, both, fast_busy, slow_busy, both_busy;
    const auto add = [](const Json& its, std::vector<double>& seconds, std::vector<double>& busy) {
      seconds.push_back(number(its, "train_seconds"));
      busy.push_back(number(its, "busy_seconds"));
    };
    Json last;
    for (int round = 0; round < rounds(); round++) {
      add(one({"full"}, 0, "adaptive"), fast, fast_busy);
      add(one({isa}, 0, "adaptive"), slow, slow_busy);
      add(last = one({"full", isa}, 0, "adaptive"), both, both_busy);
    }
    Json row = begun("full ISA and " + isa, last);
    row.set("share", number(last, "share"))
        .set("seconds", median(both))
        .set("fast_alone_seconds", median(fast))
        .set("slow_alone_seconds", median(slow));
    const auto gained = [](const auto& together, const auto& a, const auto& b) {
      return 1 / median(together) / (1 / median(a) + 1 / median(b));
    };
    row.set("ratio", gained(both, fast, slow)).set("busy_seconds", median(both_busy));
    row.set("fast_alone_busy_seconds", median(fast_busy)).set("slow_alone_busy_seconds", median(slow_busy));
    row.set("busy_ratio", gained(both_busy, fast_busy, slow_busy));
    done(row);
    shares(isa, number(last, "share"));
  }

 private:
  void shares(const std::string& isa, double chosen) {
    struct Tried {
      double share;
      std::vector<double> seconds{}, busy{};
    };
    std::vector<Tried> tried;
    for (Index k = -kShareSteps; k <= kShareSteps; k++)
      if (const double share = chosen + static_cast<double>(k) / kShareUnit; share > 0.02 && share < 0.98) tried.push_back({share});
    Json last;
    for (int round = 0; round < rounds(); round++)
      for (Tried& its : tried) {
        last = one({"full", isa}, its.share, "adaptive");
        its.seconds.push_back(number(last, "train_seconds"));
        its.busy.push_back(number(last, "busy_seconds"));
      }
    const auto least = [&](const auto& seconds) {
      return *std::min_element(tried.begin(), tried.end(), [&](const Tried& a, const Tried& b) { return seconds(a) < seconds(b); });
    };
    const auto wall = [](const Tried& its) { return median(its.seconds); };
    const auto busy = [](const Tried& its) { return median(its.busy); };
    const Tried& ours = *std::find_if(tried.begin(), tried.end(), [&](const Tried& its) { return its.share == chosen; });
    Json row = begun("shares, full ISA and " + isa, last);
    row.set("share", chosen).set("best_share", least(wall).share).set("seconds", wall(ours)).set("best_seconds", wall(least(wall)));
    row.set("ratio", wall(ours) / wall(least(wall))).set("busy_seconds", busy(ours)).set("best_busy_share", least(busy).share);
    done(row.set("busy_ratio", busy(ours) / busy(least(busy))));
  }

  int rounds() const { return arguments_.rounds; }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  static double number(const Json& row, const char* key) {
    const Json::Value& value = row.find(key)->value;
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
    return std::get<double>(value);
  }
  Json one(const std::vector<std::string>& isas, double share, const char* shrink) {
    std::vector<Device> devices;
    for (const std::string& isa : isas)
      devices.push_back(device_of("rank " + std::to_string(devices.size()), isa == "full" ? "" : isa));
    std::vector<std::string> words{"--rank", file("samples"), file("row.json"), fmt::format("{}", share), shrink};
    words.insert(words.end(), isas.begin(), isas.end());
    Json made;
    if (const int code = bench::launched(devices, words, file("row.json"), made); code != 0)
      throw Error(Exit::internal, "the ranks ended with code " + std::to_string(code));
    return made;
  }
  Json begun(const std::string& what, const Json& its) const {
    Json row{Json::Object{}};
    row.set("row", what).set("samples", arguments_.samples);
    for (const char* key : {"iterations", "kernel_values", "waiting_microseconds_per_iteration", "machine", "isa", "library"})
      row.set(key, *its.find(key));
    return row;
  }
  void done(const Json& row) {
    std::printf("%s\n", to_text(row).c_str());
    std::fflush(stdout);
    rows_.push(row);
    if (!arguments_.json.empty()) write_file(arguments_.json, to_text(rows_, 2) + "\n");
  }

  Arguments arguments_;
  std::filesystem::path folder_;
  Json rows_{Json::Array{}};
};

Arguments read_arguments(const std::vector<std::string>& words) {
  Arguments out;
  for (std::size_t w = 0; w < words.size(); w++) {
    const auto value = [&] {
      if (w + 1 == words.size()) throw UserError(words[w] + " needs a value", Exit::usage);
      return words[++w];
    };
    if (words[w] == "--quick")
      out.samples = 2000, out.rounds = 1;
    else if (words[w] == "--json")
      out.json = value();
    else if (words[w] == "--samples")
      out.samples = std::stol(value());
    else if (words[w] == "--only")
      out.only = value();
    else if (words[w] == "--rounds")
      out.rounds = std::stoi(value());
    else
      throw UserError(
          "usage: svm [--quick] [--json FILE] [--samples N] [--rounds N] [--only libsvm|meetings|elimination|avx2|sse41]",
          Exit::usage);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() > 4 && words[0] == "--rank") return on_rank(argc, argv, {words.begin() + 1, words.end()});
  if (words.size() == 2 && words[0] == "--meeting") return on_meeting_rank(argc, argv, words[1]);
  return bench::reported("svm", [&] {
    const Arguments arguments = read_arguments(words);
    Bench bench(arguments);
    const auto wanted = [&](const char* part) { return arguments.only.empty() || arguments.only == part; };
    if (wanted("libsvm")) bench.beside_libsvm();
    if (wanted("meetings")) bench.meetings();
    if (wanted("elimination")) bench.elimination();
    for (const char* isa : {"avx2", "sse41"})
      if (wanted(isa)) bench.two_ranks(isa);
    return 0;
  });
}
