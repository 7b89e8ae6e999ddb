// SPDX-License-Identifier: Apache-2.0
/// @file
/// How long things take: measured points, and estimates from them.
#pragma once
#include <motley/device.h>
#include <motley/kernel_spec.h>

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace motley {

class ScaledKernels;

/// @addtogroup planning
/// @{

/// Measured seconds of repeated runs.
struct Spread {
  double min = 0;                            ///< seconds of the fastest run
  double q25 = 0;                            ///< lower quartile, seconds
  double median = 0;                         ///< seconds
  int n = 0;                                 ///< runs
  double typical() const { return median; }  ///< what predictions use: a run reports the median of its steps too
  bool operator==(const Spread&) const = default;
};

/// How an estimate was obtained.
enum class Known : std::uint8_t { measured, interpolated, scaled, modelled };
/// Seconds, and how they were obtained.
struct Estimate {
  double seconds = 0;             ///< of one run, or one message, as plans count them
  Known known = Known::modelled;  ///< how the seconds were obtained
  double error = 0;               ///< scaled: `seconds` are the estimate times 1 + this
  /// Whether the kernel should be measured before a plan relies on its seconds.
  bool is_guess() const { return known == Known::scaled || known == Known::modelled; }
};

/// How far estimates of a device's kernels are from what was measured: |estimate / measured - 1| of measured kernels that were left
/// out.
struct EstimateError {
  double median = 0;  ///< of these kernels
  double q90 = 0;     ///< nine of ten are below
  int kernels = 0;    ///< that were left out
};

/// The device that was measured, so that a profile of another device is refused; and how much the other ranks of its host slow it
/// down (kernels are measured while all of these ranks compute).
struct DeviceFacts {
  std::string name{};            ///< of the device in its mesh
  std::string kind{};            ///< cpu, cuda or emulated
  std::string model{};           ///< what the vendor calls it
  std::string isa{};             ///< what its kernels use
  std::string library{};         ///< name and version
  std::string host{};            ///< empty: the host that measured
  int threads = 1;               ///< that its kernels use
  double alone_over_shared = 1;  ///< seconds of its large kernels while the other ranks are idle, over those while they compute
  double slow = 1;  ///< upper quartile, over the measurement, of its kernels' seconds relative to those when it is quiet
  double fast = 1;  ///< lower quartile of the same ratio
  bool operator==(const DeviceFacts&) const = default;
};

/// One kernel, measured on one device.
struct KernelPoint {
  int device = 0;                ///< index into Profile::devices
  KernelSpec spec{};             ///< which computation
  Spread seconds{};              ///< of the runs
  std::string implementation{};  ///< which kernel ran
  int choices = 1;               ///< implementations that were timed; this is the fastest
  Index workspace_bytes = 0;     ///< that this kernel needs beside its operands; 0 also from a profile of an older motley
  bool supported = true;         ///< false: the device cannot compute it, nothing was timed; in JSON `"implementation": null`
};
/// The seconds of a kernel that its device cannot compute: more than any step takes, so that a plan has it only without an
/// alternative.
inline constexpr double kImpossibleSeconds = 1e6;

/// Seconds that are assumed of an exchange without bytes between two ranks of a host (Link::exchange_seconds) that was not
/// measured: two cores of one server CPU.
inline constexpr double kUnknownExchangeSeconds = 0.2e-6;

/// Flops per second that are assumed of a device of which no kernel of that op and pass was measured.
inline constexpr double kUnknownRate = 1e9;

/// Time of one message: seconds + bytes / bytes_per_second of the first segment that includes its size (the last one covers any
/// size).
struct LinkSegment {
  Index bytes_up_to = 0;        ///< largest message of the segment
  double seconds = 0;           ///< of a message without bytes
  double bytes_per_second = 0;  ///< above 0
};
/// Messages from one rank to another.
struct Link {
  int from = 0;                         ///< rank that sends
  int to = 0;                           ///< rank that receives
  std::vector<LinkSegment> segments{};  ///< by size, ascending
  /// If the two ranks share a host's memory: the additional seconds for reading in place (bytes that rank `from` has just written,
  /// read by a kernel of rank `to`) beyond reading what the reader itself wrote. Empty: not measured.
  std::vector<LinkSegment> in_place{};
  /// Likewise: seconds that an exchange without bytes takes of rank `to`: a fence, its flag, and waiting for the flag that rank
  /// `from` sets at the same time. Messages have theirs in `segments`.
  std::optional<double> exchange_seconds{};
};

/// A copy between the host's pinned memory and the memory of a rank's device, each way.
struct DeviceLink {
  int device = 0;                          ///< index into Profile::devices
  std::vector<LinkSegment> to_device{};    ///< by size, ascending
  std::vector<LinkSegment> from_device{};  ///< by size, ascending
};
/// A plan of which real steps were timed, relative to the reference plan in the same rounds.
struct TimedPlan {
  std::string decisions{};  ///< hash of its parts
  std::string name{};       ///< for people: "filters 32/8", "even parts", "fast alone"
  double q25 = 1;           ///< of its seconds over the reference's: lower quartile over the rounds
  double median = 1;        ///< likewise
  double q75 = 1;           ///< likewise
  int n = 0;                ///< rounds
};
/// Real steps of several plans of one step on one mesh, timed in turn.
struct TimedSteps {
  std::string step{};              ///< hash of step, mesh, rules and dtype
  std::string devices{};           ///< hash of the devices and their libraries
  std::string build{};             ///< motley's version
  std::string reference{};         ///< which of the plans the others are relative to; empty: the time did not suffice for any
  Spread reference_seconds{};      ///< of its steps on the slowest rank
  std::vector<TimedPlan> plans{};  ///< in the order in which they ran; empty: none did
};

/// Messages from and to a device's separate memory are sent in pieces of so many bytes: one is copied while the one before is sent.
inline constexpr Index kStagedBytes = Index{1} << 20;

class Mesh;

/// All that was measured on the devices of a mesh. Queries do not change it and may come from several threads.
class Profile {
 public:
  /// Reads a profile file. UserError with file, line, column.
  static Profile load(const std::filesystem::path& file);
  /// The same from a text; errors name the file `name`.
  static Profile parse(const std::string& name, const std::string& text);
  std::string json() const;                            ///< the text of a profile file
  void save(const std::filesystem::path& file) const;  ///< under a temporary name, synced, renamed. UserError (74)
  /// Adds or replaces: of several points of the same (device, spec) the one with the smaller median is kept. The bias of a
  /// convolution or dense layer is dropped from the spec, except with an epilogue and where there was a choice: such a point
  /// decides only implementation().
  void add(KernelPoint point);
  void scale(int device, double factor);                 ///< Multiplies the seconds of all kernels of a device.
  bool timed(int device, const KernelSpec& spec) const;  ///< exactly this spec, bias and epilogue included
  /// The fastest implementation timed for exactly this spec, bias and activation included; empty: there was no choice.
  std::string implementation(int device, const KernelSpec& spec) const;
  /// False: a point says that this device cannot compute it; or some point says that it cannot compute the same kernel with other
  /// extents, and none says that it can. What was not measured is supported.
  bool supports(int device, const KernelSpec& spec) const;
  /// Of a modelled device: as its numbers say, modelled. Not supported: kImpossibleSeconds. measured: exactly this spec.
  /// interpolated: from specs that differ in one extent: channels and filters on this device's granule (a step function: the
  /// smallest measured size that is not smaller), samples on a line; beyond the largest measured size linear in flops. scaled: from
  /// the most similar measured kernel that differs in extents alone, by what each of them changed of others; times 1 + the error
  /// below which nine of ten such estimates are on this device. modelled: at the rate of the slowest of the three most similar
  /// kernels of that op and pass, else 1e9 flops per second. So what was never timed is seldom taken for faster than it is. With an
  /// epilogue that was not timed with this spec: the seconds without it, plus what the epilogue took per element with other specs.
  Estimate seconds(int device, const KernelSpec& spec) const;
  /// Of scaled kernels: each of up to 128 measured ones is estimated without itself and without those that differ from it in one
  /// extent only, or by little. Nothing: there are none that can be.
  std::optional<EstimateError> estimate_error(int device) const;
  /// Bytes that this kernel needs beside its operands: of exactly this spec; else without its bias and epilogue (with room for the
  /// result before it is rounded to bf16); else of the next larger one measured, or of a smaller one times the flops; else 0.
  Index workspace_bytes(int device, const KernelSpec& spec) const;
  /// Of a message from where it is stored to where it is read: copied out of a device's separate memory, sent, and copied into the
  /// other device's, piece by piece.
  Estimate seconds(int from, int to, Index bytes) const;
  /// Of a message from host memory to host memory. Modelled: a modelled device's; not measured (5 us + 2e9 bytes per second).
  Estimate wire_seconds(int from, int to, Index bytes) const;
  /// The additional seconds of a kernel that reads bytes which a rank of the same host has just written (Link::in_place). Not
  /// measured: 10e9 bytes per second (two cores of one server CPU, bench/exchange), modelled.
  Estimate in_place_seconds(int from, int to, Index bytes) const;
  /// Of an exchange between two ranks of a host that read each other's memory, beside what reading takes (Link::exchange_seconds):
  /// once for every rank that is read from. Not measured: kUnknownExchangeSeconds, modelled.
  Estimate exchange_seconds(int from, int to) const;
  /// Of wire_seconds, those in proportion to the bytes: between two hosts they occupy the network cards of both.
  double card_seconds(int from, int to, Index bytes) const;
  std::vector<int> hosts() const;                             ///< by rank: the first rank of the same host
  double to_device_seconds(int device, Index bytes) const;    ///< of a copy into the device's memory; 0: it works in the host's
  double from_device_seconds(int device, Index bytes) const;  ///< of a copy out of the device's memory; 0: it works in the host's
  /// Whether no kernel's seconds are known: none was measured, and no device is modelled.
  bool empty() const { return kernels_.empty() && modelled.empty(); }
  const std::vector<KernelPoint>& kernels() const { return kernels_; }  ///< measured points
  std::vector<DeviceFacts> devices{};                                   ///< by rank
  std::vector<Link> links{};                                            ///< measured links
  std::vector<DeviceLink> device_links{};                               ///< of devices with separate memory
  /// By rank: of modelled devices (modelled_profile()); their kernels' seconds follow from these. Not part of a profile file.
  std::map<int, std::shared_ptr<const DeviceNumbers>> modelled{};
  /// What was measured to the end, or to the end of its budget (measure.h).
  struct Completed {
    std::string hash;         ///< of step, mesh and rules
    std::size_t kernels = 0;  ///< that the profile had then
  };
  /// Planning for these again does not change the profile, unless kernels were taken out of it since.
  std::vector<Completed> complete_for{};
  std::vector<TimedSteps> steps{};   ///< real steps, the oldest first; they decide between plans that are predicted to be near
  std::vector<std::string> notes{};  ///< "contended", "drifting", "batch scaled from 32": informative

 private:
  struct FamilyPoint {
    Index extent = 0;       // of the one role that varies; of a map or update: its elements
    std::size_t point = 0;  // index into kernels_
  };
  struct Mean {
    double sum = 0;
    int count = 0;
  };
  struct RatePoint {
    std::array<double, 10> extents{};  // logarithms, of what distance_of() compares
    std::size_t point = 0;             // index into kernels_
  };
  double between(const FamilyPoint* below, const FamilyPoint& above, Index samples) const;
  Estimate bare_seconds(int device, const KernelSpec& spec) const;  // a spec without bias and epilogue
  double modelled_seconds(int device, const KernelSpec& spec) const;
  struct Scaled;
  static std::shared_ptr<Scaled> not_scaled();
  const ScaledKernels& scaled() const;
  void add_epilogue(const KernelPoint& point);
  const KernelPoint* find(int device, const KernelSpec& spec) const;
  const Link* link(int from, int to) const;  // nullptr: none
  void add_to_families(std::size_t point);
  std::vector<KernelPoint> kernels_{};
  std::unordered_map<std::size_t, std::vector<std::size_t>> by_hash_{};    // (device, spec) -> points
  std::unordered_map<std::size_t, std::vector<FamilyPoint>> by_family_{};  // (device, spec without one extent), extents ascending
  std::unordered_set<std::size_t> supported_{}, unsupported_{};            // kinds: (device, spec without extents)
  std::unordered_map<std::size_t, Mean> epilogues_{};                      // (device, op, epilogue) -> seconds per element
  std::unordered_map<std::size_t, std::vector<RatePoint>> by_rate_{};      // (device, op, pass, dtype) -> points
  std::shared_ptr<Scaled> scaled_ = not_scaled();                          // made for the first query; copies share it
};

/// The profile with its devices, found by name, in the mesh's order; the profile as it is, if it has that order already or is not
/// of these devices. Real steps, which were of another mesh, are left out of what is reordered.
Profile in_order_of(const Mesh& mesh, Profile profile);

/// @}
}  // namespace motley
