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

/// One kernel: compiled once, run many times; run() allocates nothing.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::size_t workspace_bytes() const { return 0; }  ///< of the workspace that run() needs
  virtual std::string implementation() const = 0;            ///< such as "jit:avx512_core", "motley:avx2", "reference"
  /// operands: in the spec's order, each the address of element 0 (64-byte aligned only where the spec is dense conv/dense/pool).
  /// On a device with separate memory (operands there 16-byte aligned, the workspace 256-byte aligned) run() enqueues the kernel in
  /// the compute queue; the kernel, its operands and the workspace must stay in place until it has finished.
  virtual void run(std::span<void* const> operands, void* workspace) = 0;
};

/// Memory that the host cannot address, and the device's two queues: kernels run in one, copies in either. Each queue runs in call
/// order; only Mark::hold orders one queue relative to the other. No call but allocate waits for the device.
class DeviceMemory {
 public:
  /// Kernels run in `compute`, copies in either.
  enum class Queue : std::uint8_t { compute, copy };
  using Block = std::shared_ptr<std::byte>;  ///< freed by its last owner
  /// A point in a queue (an event). Made before a step, and set repeatedly during steps.
  class Mark {
   public:
    virtual ~Mark() = default;
    virtual void set(Queue queue) = 0;   ///< marks the point after all work enqueued so far
    virtual void hold(Queue queue) = 0;  ///< work enqueued from now on waits until the mark, as set now, has passed
    virtual bool passed() = 0;  ///< whether the queue has reached the mark. DeviceError: the device failed, also in earlier work
    virtual double seconds_since(const Mark& earlier) const = 0;  ///< both marks must have passed
  };
  virtual ~DeviceMemory() = default;
  virtual Block allocate(std::size_t bytes) = 0;       ///< on the device: 256-byte aligned, zeroed. DeviceError
  virtual Block allocate_host(std::size_t bytes) = 0;  ///< on the host, where copies are fast (pinned). DeviceError
  virtual std::unique_ptr<Mark> make_mark() = 0;       ///< not set yet
  /// Copies between or within the host's and the device's memory. Source and destination must stay untouched until the copy is
  /// done.
  virtual void copy(Queue queue, void* to, const void* from, std::size_t bytes) = 0;
};
/// Copies after all kernels enqueued so far, and returns when the copy is done. Not for use inside a step.
void copy_and_wait(DeviceMemory& device, void* to, const void* from, std::size_t bytes);

/// One opened device: compiles kernels and describes itself.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceMemory* device_memory() { return nullptr; }  ///< where operands are stored; nullptr: in the host's memory
  /// Whether compile() can make a kernel for the spec. Cheap: a function of spec, device and library alone, and the device does no
  /// work. What a device cannot compute is a row of its profile, so that no plan assigns it to this device.
  virtual bool supports(const KernelSpec& spec) const = 0;
  virtual std::unique_ptr<Kernel> compile(const KernelSpec& spec) = 0;  ///< DeviceError: this device cannot compute the spec
  /// The implementations (as named by Kernel::implementation()) that can compute the spec here, compile()'s default first. A
  /// function of spec, device and library alone. Fewer than two: no choice. With a choice the profiler times each, and the plan
  /// says which one runs.
  virtual std::vector<std::string> implementations(const KernelSpec&) { return {}; }
  /// Compiles exactly this implementation. DeviceError: it is not available here.
  virtual std::unique_ptr<Kernel> compile_as(const KernelSpec& spec, const std::string& implementation);
  virtual std::string model() const = 0;                ///< "AMD EPYC ..."
  virtual std::string isa() const = 0;                  ///< what is really used, as the library reports it
  virtual std::string library() const = 0;              ///< "oneDNN 2.6.3"
  virtual int threads() const = 0;                      ///< that its kernels use
  virtual Index memory_bytes() const = 0;               ///< memory limit of the device
  virtual std::string condition() const { return ""; }  ///< current state of the device, for notes: "1980 MHz, 412 W"
  virtual bool repeats() const { return false; }  ///< kernels may run more than once (emulated): in-place ones are not repeated
};

/// The device's backend. First caps the ISA and the number of threads of this process, so call it once, before any vendor call.
/// DeviceError: the device is not here, the ISA name is unknown or could not be set. UserError: the library is unknown or not
/// built.
std::unique_ptr<Backend> open_backend(const Device& device);
/// Plain loops, f32 and f64, any spec: what every backend is compared with.
std::unique_ptr<Backend> reference_backend();
/// The backend of f64 plans on any device: contractions are matrix products by Eigen, maps are computed in strips, pools by the
/// reference's loops. Supports f32 and bf16 too. One thread.
std::unique_ptr<Backend> f64_backend();

/// @}
}  // namespace motley
