// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a kind of device must be able to do.
#pragma once
#include <motley/device.h>
#include <motley/kernel_spec.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup kernels
/// @{

/// One kernel, compiled once, run many times, no allocation in run().
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::size_t workspace_bytes() const { return 0; }  ///< of the memory that run() is given
  virtual std::string implementation() const = 0;            ///< such as "jit:avx512_core", "motley:avx2", "reference"
  /// operands: as the spec orders them, element 0 of each (64-byte aligned only where the spec is dense conv/dense/pool). On a
  /// device with memory of its own (there 16-byte aligned): put into its compute queue; the kernel, operands and workspace
  /// (there 256-byte aligned) stay until that is done.
  virtual void run(std::span<void* const> operands, void* workspace) = 0;
};

/// Memory that the host cannot address, and the device's two queues: kernels run in one, copies in either, each queue in the
/// order of the calls; nothing but Mark::hold orders one against the other. No call but allocate waits for the device.
class DeviceMemory {
 public:
  /// Kernels run in `compute`, copies in either.
  enum class Queue : std::uint8_t { compute, copy };
  using Block = std::shared_ptr<std::byte>;  ///< freed with its last owner
  /// A point in a queue. Made before a step, set in it again and again.
  class Mark {
   public:
    virtual ~Mark() = default;
    virtual void set(Queue queue) = 0;   ///< after all that the queue was given so far
    virtual void hold(Queue queue) = 0;  ///< what the queue is given from now on waits until the mark, as it is set now, has passed
    virtual bool passed() = 0;  ///< whether the queue has come so far. DeviceError: an error on the device, of earlier work too
    virtual double seconds_since(const Mark& earlier) const = 0;  ///< both have passed
  };
  virtual ~DeviceMemory() = default;
  virtual Block allocate(std::size_t bytes) = 0;       ///< on the device: 256-byte aligned, zeroed. DeviceError
  virtual Block allocate_host(std::size_t bytes) = 0;  ///< on the host, where copies are fast (pinned). DeviceError
  virtual std::unique_ptr<Mark> make_mark() = 0;       ///< not set yet
  /// Between any two of the host's and the device's memory. What a copy reads and writes stays untouched until it is done.
  virtual void copy(Queue queue, void* to, const void* from, std::size_t bytes) = 0;
};
/// After all kernels so far, and done when it returns. Not for use inside a step.
void copy_and_wait(DeviceMemory& device, void* to, const void* from, std::size_t bytes);

/// One opened device: compiles kernels, and says what it is.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceMemory* device_memory() { return nullptr; }  ///< where operands are stored; nullptr: in the host's memory
  /// Whether compile() makes a kernel of it. Cheap, and a function of spec, device and library alone; the device does nothing. What
  /// a device cannot do is a row of its profile, so that no plan gives it to it.
  virtual bool supports(const KernelSpec& spec) const = 0;
  virtual std::unique_ptr<Kernel> compile(const KernelSpec& spec) = 0;  ///< DeviceError: what this device cannot do
  /// What may compute the spec here, by Kernel::implementation(), the one that compile() takes first. A function of spec, device
  /// and library alone. Fewer than two: there is no choice. With a choice the profiler times each, and the plan says which runs.
  virtual std::vector<std::string> implementations(const KernelSpec&) { return {}; }
  /// Exactly that one. DeviceError: it is not here.
  virtual std::unique_ptr<Kernel> compile_as(const KernelSpec& spec, const std::string& implementation);
  virtual std::string model() const = 0;                ///< "AMD EPYC ..."
  virtual std::string isa() const = 0;                  ///< what is really used, as the library reports it
  virtual std::string library() const = 0;              ///< "oneDNN 2.6.3"
  virtual int threads() const = 0;                      ///< of its kernels
  virtual Index memory_bytes() const = 0;               ///< limit of the device
  virtual std::string condition() const { return ""; }  ///< of the device now, for notes: "1980 MHz, 412 W"
  virtual bool repeats() const { return false; }  ///< kernels may run more than once (emulated): in-place ones are not repeated
};

/// The device's backend. Caps the ISA and the threads of this process first thing, so call it before any vendor call, once.
/// DeviceError: the device is not here, the ISA name is unknown or could not be set. UserError: the library is unknown or not
/// built.
std::unique_ptr<Backend> open_backend(const Device& device);
/// Plain loops, f32 and f64, any spec: what every backend is compared with.
std::unique_ptr<Backend> reference_backend();
/// What f64 plans run on, on any device: contractions as matrix products by Eigen, the reference's loops for everything else. f32
/// and bf16 too. One thread.
std::unique_ptr<Backend> f64_backend();

/// @}
}  // namespace motley
