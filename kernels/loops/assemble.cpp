// SPDX-License-Identifier: Apache-2.0
#include "kernels/loops/assemble.h"

#ifdef MOTLEY_XBYAK
#define XBYAK_USE_MMAP_ALLOCATOR
#include <motley/error.h>
#include <xbyak/xbyak.h>
#undef XBYAK_USE_MMAP_ALLOCATOR

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "base/at.h"
#include "kernels/loops/lane_code.h"
#include "kernels/value.h"

namespace motley::cpu {
namespace {

using Xbyak::Reg64, Xbyak::Xmm, Xbyak::Ymm;

bool is(const LaneInstruction& s, Opcode op) {
  return s.lane == LaneOp::formula && s.op == op;
}
bool reads_memory(const LaneInstruction& s) {
  return is(s, Opcode::operand) || is(s, Opcode::integer);
}
bool reads_others(const LaneInstruction& s) {
  return s.lane == LaneOp::formula ? reads_registers(s.op) : s.lane != LaneOp::number;
}

// CPU registers that are free, a bit each.
class Free {
 public:
  explicit Free(std::uint32_t bits) : bits_(bits) {}
  int take() {  // -1: none is free
    if (bits_ == 0) return -1;
    const int number = std::countr_zero(bits_);
    bits_ &= bits_ - 1;
    return number;
  }
  void give(int number) { bits_ |= 1U << number; }

 private:
  std::uint32_t bits_;
};

// What a register of the formula depends on.
enum class Varies : std::uint8_t { never, by_row, by_element };

// rdi: the Strip. rsi: elements of a row. rax: the first element in work. r8: rows left. rcx, rdx: temporaries. Other general
// registers: addresses of the operands and results of the row in work.
class Assembler : Xbyak::CodeGenerator {
 public:
  Assembler(const PlainFormula& formula, Simd simd, std::uint32_t still)
      : CodeGenerator(kBytes, Xbyak::DontSetProtectRWE),
        f_(lane_code(formula)),
        still_(still),
        sse_(simd == Simd::sse41),
        vectors_(sse_ ? 0xfffeU : 0xffffU) {
    fits_ = f_.code.size() <= kMostCode;
    find_uses();
    begin();
    Xbyak::Label row, end;
    registers_of(Varies::never, {});
    align(16);
    L(row);
    registers_of(Varies::by_row, {});
    xor_(eax, eax);
    const int most = width();
    elements({most, 2});
    elements({most, 1});
    if (most > 4) elements({4, 1});
    elements({1, 1});
    dec(r8);
    jz(end, T_NEAR);
    next_row();
    jmp(row, T_NEAR);
    L(end);
    finish();
    align(32);
    for (auto& [bits, label] : numbers_) {
      L(label);
      for (int k = 0; k < 8; k++) dd(bits);
    }
  }

  // Null: registers or memory did not suffice.
  FormulaLoop loop() {
    if (!fits_ || !setProtectModeRE(false)) return nullptr;
    return getCode<FormulaLoop>();
  }

 private:
  static constexpr std::size_t kBytes = 65536, kMostCode = 700;  // at most 16 bytes each, in five bodies
  static constexpr int kKept = std::numeric_limits<int>::max();
  // So many elements at once, so many times; width 0: one value for all elements.
  struct Lanes {
    int width = 0, times = 1;
  };

  int width() const { return sse_ ? 4 : 8; }
  int count() const { return static_cast<int>(f_.code.size()); }
  const LaneInstruction& code(int i) const { return at(f_.code, i); }
  bool is_number(int i) const { return code(i).lane == LaneOp::number; }

  void find_uses() {
    const std::size_t size = f_.code.size();
    varies_.assign(size, Varies::never), last_.assign(size, 0), its_.assign(size, -1), constant_.assign(size, 0);
    for (int i = 0; i < count(); i++) {
      const LaneInstruction& s = code(i);
      Varies& varies = at(varies_, i);
      if (reads_memory(s)) varies = (still_ >> s.a & 1) != 0 ? Varies::by_row : Varies::by_element;
      if (is(s, Opcode::constant) || is(s, Opcode::whole)) {
        at(constant_, i) = constants_++;
        if (f_.has_functions) varies = Varies::by_element;  // which need the CPU's registers: loaded where it is read
      }
      at(last_, i) = i;
      if (!reads_others(s)) continue;
      for (const int r : {s.a, s.b, s.c})
        if (r >= 0) {
          varies = std::max(varies, at(varies_, r));
          at(last_, r) = i;
        }
    }
    for (int i = 0; i < count(); i++)  // a value computed before the loop is kept
      if (at(varies_, i) != Varies::by_element && !is_number(i)) at(last_, i) = kKept;
    for (const int r : f_.results) at(last_, r) = kKept;
  }

  // ---- pointers
  void begin() {
    const std::array<Reg64, 9> all{r9, r10, r11, rbx, rbp, r12, r13, r14, r15};
    constexpr std::size_t kScratch = 3;  // the first ones are caller-saved
    std::size_t next = 0;
    const auto pointer = [&](std::size_t list, int k, Reg64& to) {
      if (next == all.size()) return static_cast<void>(fits_ = false);
      to = all[next++];
      if (next > kScratch) push(to), pushed_.at(pushes_++) = to;
      mov(to, ptr[rdi + static_cast<int>(list) + 8 * k]);
    };
    std::uint32_t seen = 0;
    for (const LaneInstruction& s : f_.code)
      if (const int k = s.a; reads_memory(s) && (seen >> k & 1) == 0) {
        seen |= 1U << k;
        pointer(offsetof(Strip, in), k, at(in_, k));
      }
    walked_ = seen;
    for (int k = 0; k < results(); k++) pointer(offsetof(Strip, out), k, at(out_, k));
    mov(r8, ptr[rdi + offsetof(Strip, rows)]);
  }
  void next_row() {
    mov(rdx, ptr[rdi + offsetof(Strip, in_steps)]);
    for (int k = 0; k < kMostOperands; k++)
      if ((walked_ >> k & 1) != 0) {
        mov(rcx, ptr[rdx + 8 * k]);
        lea(at(in_, k), ptr[at(in_, k) + rcx * 4]);
      }
    mov(rdx, ptr[rdi + offsetof(Strip, out_steps)]);
    for (int k = 0; k < results(); k++) {
      mov(rcx, ptr[rdx + 8 * k]);
      lea(at(out_, k), ptr[at(out_, k) + rcx * 4]);
    }
  }
  void finish() {
    while (pushes_ > 0) pop(pushed_.at(--pushes_));
    if (!sse_) vzeroupper();
    ret();
  }

  // ---- loops over elements
  void elements(const Lanes& lanes) {
    Xbyak::Label loop, done;
    const auto is_over = [&] {
      lea(rdx, ptr[rax + lanes.width * lanes.times]);
      cmp(rdx, rsi);
    };
    is_over();
    jg(done, T_NEAR);
    align(16);
    L(loop);
    for (int time = 0; time < lanes.times; time++) body(lanes, time * lanes.width);
    mov(rax, rdx);
    is_over();
    jle(loop, T_NEAR);
    L(done);
  }
  // shift: elements after rax
  void body(const Lanes& lanes, int shift) {
    const Free before = vectors_;
    shift_ = shift;
    registers_of(Varies::by_element, lanes);
    for (int k = 0; k < results(); k++)  // after all operands are read: results may be in the same memory
      store(ptr[at(out_, k) + rax * 4 + 4 * shift], at(its_, at(f_.results, k)), lanes);
    vectors_ = before;
  }
  int results() const { return static_cast<int>(f_.results.size()); }
  void registers_of(Varies varies, const Lanes& lanes) {
    for (int i = 0; i < count() && fits_; i++) {
      if (at(varies_, i) != varies || is_number(i)) continue;
      compute(i, lanes);
      if (at(last_, i) == i) give(i);  // no instruction reads it
    }
  }

  // ---- registers: all lanes are equal if the value does not vary by element
  Xmm vector(int number, const Lanes& lanes) const {
    return (lanes.width == 0 ? width() : lanes.width) == 8 ? Ymm(number) : Xmm(number);
  }
  int take() {
    const int number = vectors_.take();
    if (number < 0) fits_ = false;
    return number < 0 ? 0 : number;  // the code will not run
  }
  bool dies(int r, int i) const { return r >= 0 && at(last_, r) == i; }
  void give(int r) {
    if (at(its_, r) >= 0) vectors_.give(at(its_, r));
  }
  // Frees the registers that instruction i was the last one to read; not `kept`, which it has taken over.
  void free_operands(int i, int kept = -1) {
    const LaneInstruction& s = code(i);
    for (const int r : {s.a, s.b != s.a ? s.b : -1, s.c != s.a && s.c != s.b ? s.c : -1})
      if (dies(r, i) && r != kept) give(r);
  }

  void load(int to, const Xbyak::RegExp& from, const Lanes& lanes) {
    const Xmm x = vector(to, lanes);
    if (lanes.width == 0) {
      if (sse_) {
        movss(x, dword[from]);
        shufps(x, x, 0);
      } else {
        vbroadcastss(x, dword[from]);
      }
    } else if (lanes.width == 1) {
      sse_ ? movss(x, dword[from]) : vmovss(x, dword[from]);
    } else {
      sse_ ? movups(x, ptr[from]) : vmovups(x, ptr[from]);
    }
  }
  void store(const Xbyak::Address& to, int from, const Lanes& lanes) {
    const Xmm x = vector(from, lanes);
    if (lanes.width == 1)
      sse_ ? movss(to, x) : vmovss(to, x);
    else
      sse_ ? movups(to, x) : vmovups(to, x);
  }

  // ---- numbers of functions, in memory after the code: as the first operand of an instruction they are loaded
  Xbyak::Address number(int r) { return ptr[rip + numbers_[code(r).bits]]; }
  void load_number(int r, const Lanes& lanes) {
    if (r < 0 || !is_number(r)) return;
    const Xmm x = vector(at(its_, r) = take(), lanes);
    sse_ ? movaps(x, number(r)) : vmovaps(x, number(r));
  }

  // ---- one instruction
  void compute(int i, const Lanes& lanes) {
    const LaneInstruction& s = code(i);
    if (s.lane != LaneOp::formula || reads_registers(s.op)) load_number(s.a, lanes);
    if (is(s, Opcode::select)) load_number(s.b, lanes), load_number(s.c, lanes);
    if (s.lane == LaneOp::left || s.lane == LaneOp::right) return shift(i, lanes);
    if (s.lane != LaneOp::formula) return sse_ ? binary_in_place(i) : binary(i, lanes);
    switch (s.op) {
      case Opcode::operand:
      case Opcode::integer: {
        const int to = at(its_, i) = take();
        return load(to, lanes.width == 0 ? Xbyak::RegExp(at(in_, s.a)) : at(in_, s.a) + rax * 4 + 4 * shift_, lanes);
      }
      case Opcode::scalar: return scalar(i);
      case Opcode::constant:
      case Opcode::whole: {
        const int to = at(its_, i) = take();
        mov(rcx, ptr[rdi + offsetof(Strip, constants)]);
        load(to, rcx + 4 * at(constant_, i), {});
        if (s.op == Opcode::constant) return;
        const Xmm x = vector(to, {});
        return sse_ ? cvttps2dq(x, x) : vcvttps2dq(x, x);
      }
      case Opcode::select: return select(i, lanes);
      case Opcode::sqrt: {
        const int a = at(its_, s.a);
        free_operands(i);
        const int to = at(its_, i) = take();
        const Xmm x = vector(to, lanes), from = vector(a, lanes);
        return sse_ ? sqrtps(x, from) : vsqrtps(x, from);
      }
      default: return sse_ ? binary_in_place(i) : binary(i, lanes);
    }
  }
  void scalar(int i) {
    const int to = at(its_, i) = take();
    const Xmm x(to), all = vector(to, {});
    mov(rdx, ptr[rdi + static_cast<int>(offsetof(Strip, in)) + 8 * code(i).a]);
    if (sse_) {
      cvtsd2ss(x, qword[rdx]);
      shufps(x, x, 0);
    } else {
      vcvtsd2ss(x, x, qword[rdx]);
      vbroadcastss(all, x);
    }
  }

  static std::uint8_t comparison(Opcode op) { return op == Opcode::less ? 1 : op == Opcode::less_equal ? 2 : 0; }
  // Instructions with three operands.
  void binary(int i, const Lanes& lanes) {
    const LaneInstruction& s = code(i);
    const Xmm a = vector(at(its_, s.a), lanes);
    const bool in_memory = is_number(s.b);
    const Xmm in_register = in_memory ? a : vector(at(its_, s.b), lanes);
    const Xbyak::Address memory = in_memory ? number(s.b) : ptr[rdi];
    const Xbyak::Operand& b = in_memory ? static_cast<const Xbyak::Operand&>(memory) : in_register;
    free_operands(i);
    const Xmm to = vector(at(its_, i) = take(), lanes);
    switch (s.lane) {
      case LaneOp::greater: return vmaxps(to, a, b);
      case LaneOp::smaller: return vminps(to, a, b);
      case LaneOp::plus: return vpaddd(to, a, b);
      case LaneOp::minus: return vpsubd(to, a, b);
      case LaneOp::bits_of_both: return vandps(to, a, b);
      case LaneOp::bits_of_any: return vorps(to, a, b);
      default: break;
    }
    switch (s.op) {
      case Opcode::add: return vaddps(to, a, b);
      case Opcode::sub: return vsubps(to, a, b);
      case Opcode::mul: return vmulps(to, a, b);
      case Opcode::div: return vdivps(to, a, b);
      case Opcode::matches: return vpcmpeqd(to, a, b);
      case Opcode::precedes: return vpcmpgtd(to, in_register, a);
      default: return vcmpps(to, a, b, comparison(s.op));
    }
  }
  // Instructions with two operands, the first of which becomes the result: a register that is no longer read, or a copy.
  int taken_over(int i, int r) {
    const int from = at(its_, r), to = dies(r, i) ? from : take();
    if (to != from) movaps(Xmm(to), Xmm(from));
    return at(its_, i) = to;
  }
  void binary_in_place(int i) {
    const LaneInstruction& s = code(i);
    const bool commutes = s.lane == LaneOp::formula &&
                          (s.op == Opcode::add || s.op == Opcode::mul || s.op == Opcode::equal || s.op == Opcode::matches);
    const bool in_memory = is_number(s.b);
    const bool swapped = is(s, Opcode::precedes) || (commutes && !in_memory && !dies(s.a, i) && dies(s.b, i));
    const int first = swapped ? s.b : s.a, second = swapped ? s.a : s.b;
    const Xmm in_register(in_memory ? 0 : at(its_, second));
    const Xbyak::Address memory = in_memory ? number(second) : ptr[rdi];
    const Xbyak::Operand& b = in_memory ? static_cast<const Xbyak::Operand&>(memory) : in_register;
    const Xmm to(taken_over(i, first));
    if (s.lane == LaneOp::formula)
      in_place(s.op, to, b);
    else
      in_place(s.lane, to, b);
    free_operands(i, first);
  }
  void in_place(Opcode op, const Xmm& to, const Xbyak::Operand& b) {
    switch (op) {
      case Opcode::add: return addps(to, b);
      case Opcode::sub: return subps(to, b);
      case Opcode::mul: return mulps(to, b);
      case Opcode::div: return divps(to, b);
      case Opcode::matches: return pcmpeqd(to, b);
      case Opcode::precedes: return pcmpgtd(to, b);
      default: return cmpps(to, b, comparison(op));
    }
  }
  void in_place(LaneOp lane, const Xmm& to, const Xbyak::Operand& b) {
    switch (lane) {
      case LaneOp::greater: return maxps(to, b);
      case LaneOp::smaller: return minps(to, b);
      case LaneOp::plus: return paddd(to, b);
      case LaneOp::minus: return psubd(to, b);
      case LaneOp::bits_of_both: return andps(to, b);
      default: return orps(to, b);
    }
  }
  void shift(int i, const Lanes& lanes) {
    const bool left = code(i).lane == LaneOp::left;
    const auto by = static_cast<std::uint8_t>(code(i).bits);
    if (sse_) {
      const Xmm to(taken_over(i, code(i).a));
      return left ? pslld(to, by) : psrad(to, by);
    }
    const Xmm a = vector(at(its_, code(i).a), lanes);
    free_operands(i);
    const Xmm to = vector(at(its_, i) = take(), lanes);
    left ? vpslld(to, a, by) : vpsrad(to, a, by);
  }
  void select(int i, const Lanes& lanes) {
    const LaneInstruction& s = code(i);
    const int condition = at(its_, s.a);
    const Xmm b = vector(at(its_, s.b), lanes), c = vector(at(its_, s.c), lanes);
    if (sse_) {
      movaps(xmm0, Xmm(condition));
      blendvps(Xmm(taken_over(i, s.c)), b);
      return free_operands(i, s.c);
    }
    free_operands(i);
    vblendvps(vector(at(its_, i) = take(), lanes), c, b, vector(condition, lanes));
  }

  const LaneCode f_;
  const std::uint32_t still_;
  const bool sse_;  // else AVX2
  Free vectors_;    // SSE: xmm0 is the mask of blendvps
  bool fits_ = true;
  int constants_ = 0, shift_ = 0;
  std::uint32_t walked_ = 0;
  std::size_t pushes_ = 0;
  std::array<Reg64, 6> pushed_;
  std::array<Reg64, kMostOperands> in_, out_;
  std::map<std::uint32_t, Xbyak::Label> numbers_;  // by their bits
  std::vector<Varies> varies_{};
  std::vector<int> last_{};      // the instruction that reads it last; kKept: it is kept
  std::vector<int> its_{};       // its CPU register
  std::vector<int> constant_{};  // its index in Strip::constants
};

bool can_be(const PlainFormula& f, Simd simd) {
  // With functions a loop computes for longer than it waits for memory: on AVX-512 the interpreter's wider vectors are faster.
  const bool functions = simd == Simd::sse41 || simd == Simd::avx2;
  return simd != Simd::generic && f.count > 0 && std::all_of(f.code, f.code + f.count, [functions](const PlainInstruction& s) {
           return functions ? has_lane_code(s.op) : is_assembled(s.op);
         });
}

}  // namespace

FormulaLoop assembled(const PlainFormula& formula, std::uint64_t shape, Simd simd, std::uint32_t still) {
  struct Made {
    std::unique_ptr<Assembler> code;
    FormulaLoop loop = nullptr;
  };
  static std::mutex mutex;
  static auto& all = *new std::map<std::tuple<std::uint64_t, Simd, std::uint32_t>, Made>;  // threads may run loops until the end
  if (!can_be(formula, simd)) return nullptr;
  simd = std::min(simd, Simd::avx2);  // for AVX-512 only what AVX2 has: such loops wait for memory
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = all.try_emplace({shape, simd, still});
  if (is_new) try {
      auto code = std::make_unique<Assembler>(formula, simd, still);
      if (const FormulaLoop loop = code->loop()) at->second = {std::move(code), loop};
    } catch (const Xbyak::Error& e) {
      if (const int error = e; error != Xbyak::ERR_CANT_ALLOC)
        throw InternalError(std::string("a loop in machine code: ") + e.what());
    }
  return at->second.loop;
}

}  // namespace motley::cpu

#else

namespace motley::cpu {

FormulaLoop assembled(const PlainFormula&, std::uint64_t, Simd, std::uint32_t) {
  return nullptr;
}

}  // namespace motley::cpu

#endif
