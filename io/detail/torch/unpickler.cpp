// The machine of the unpickler: opcodes, stack and memo. Then the check of the result. The
// meaning of calls is in pickle_calls.cpp.
#include "mezzo/io/detail/torch/unpickler.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/tensor_bytes.h"
#include "mezzo/io/detail/torch/pickle_calls.h"
#include "mezzo/io/detail/torch/pickle_codes.h"

namespace mezzo::io::detail {

namespace {

using Kind = TorchKind;
using Number = TorchTree::Number;

/// Longest name of a module or function.
constexpr std::size_t kMaxPickleName = 200;

/// The check of all values in the end: they must form a tree, shared values apart, of the kinds that a
/// TorchValue has. One walk over all that can be reached, each once and without recursion, which also turns
/// dtypes into strings. Throws: IoError for names and storages that are left over, values that contain
/// themselves, more than kMaxTorchDepth levels, and keys that are no strings or integers or occur twice.
class PickleCheck {
 public:
  explicit PickleCheck(PickledValues& values)
      : values_(values), tree_(values.result().tree), levels_(tree_.nodes.size(), kUnseen) {}

  void run() {
    enter(tree_.root);
    while (!open_.empty()) {
      auto& [value, next] = open_.back();
      const std::vector<Number>& parts = tree_.parts[tree_.nodes[value].index];
      if (next < parts.size()) {
        enter(parts[next++]);
        continue;
      }
      leave(value, parts);
      open_.pop_back();
    }
  }

 private:
  static constexpr std::uint8_t kUnseen = 0, kOpen = 255;
  static_assert(kMaxTorchDepth < kOpen);

  void enter(Number value) {
    if (levels_[value] == kOpen) values_.fail("values that do not contain themselves", "one that does");
    if (levels_[value] != kUnseen) return;
    const Kind kind = values_.kind(value);
    if (kind == PickledValues::kName) {
      if (values_.name_of(value).kind != PickleName::dtype) refuse(value);
      const std::string name = values_.name_of(value).text;
      tree_.nodes[value].kind = Kind::string;
      tree_.nodes[value].index = tree_.strings.size();
      tree_.strings.push_back(name);
    } else if (kind == PickledValues::kStorage) {
      refuse(value);
    }
    const bool has_parts = kind == Kind::list || kind == Kind::tuple || kind == Kind::map;
    levels_[value] = has_parts ? kOpen : 1;
    if (has_parts) open_.emplace_back(value, 0);
  }

  void leave(Number value, const std::vector<Number>& parts) {
    std::size_t deepest = 0;
    for (const Number part : parts) deepest = std::max<std::size_t>(deepest, levels_[part]);
    if (deepest >= kMaxTorchDepth)
      values_.fail("at most " + std::to_string(kMaxTorchDepth) + " levels of lists and dicts", "more");
    levels_[value] = static_cast<std::uint8_t>(deepest + 1);
    if (values_.kind(value) == Kind::map) check_keys(parts);
  }

  void check_keys(const std::vector<Number>& parts) {
    std::unordered_set<std::string_view> texts;
    std::unordered_set<std::int64_t> numbers;
    for (std::size_t i = 0; i < parts.size(); i += 2) {
      const TorchTree::Node& key = tree_.nodes[parts[i]];
      const bool is_text = key.kind == Kind::string;
      if (!is_text && key.kind != Kind::integer)
        values_.fail("keys of dicts that are strings or ints", values_.shown(parts[i]));
      if (is_text ? texts.insert(tree_.strings[key.index]).second : numbers.insert(key.integer).second)
        continue;
      values_.fail("distinct keys in a dict",
                   (is_text ? quote(tree_.strings[key.index]) : std::to_string(key.integer)) + " twice");
    }
  }

  [[noreturn]] void refuse(Number value) {
    values_.fail("tensors, dicts, lists, numbers and strings", "a reference to " + values_.shown(value));
  }

  PickledValues& values_;
  TorchTree& tree_;
  std::vector<std::uint8_t> levels_;  ///< of lists and dicts below and with a value, once it is done
  std::vector<std::pair<Number, std::size_t>> open_;  ///< with the part that comes next
};

class Unpickler {
 public:
  Unpickler(const std::string& op, std::span<const std::byte> bytes, std::string_view pickle)
      : bytes_(bytes), values_(op, pickle, result_) {}

  Pickled run(std::size_t* used) {
    if (bytes_.size() < 2 || take() != PickleCode::proto) fail("the first byte of another file");
    const auto protocol = number<std::uint8_t>();
    if (protocol < 2 || protocol > 5) fail("protocol " + std::to_string(protocol));
    while (true) {
      const PickleCode code = take();
      values_.set_place(at_ - 1);
      if (code == PickleCode::stop) break;
      if (!push_number(code) && !push_text(code) && !push_container(code) && !fill_container(code) &&
          !use_memo(code) && !run_call(code))
        fail_code(code);
    }
    if (used != nullptr)
      *used = at_;
    else if (at_ != bytes_.size())
      fail("more bytes behind its end");
    if (stack_.size() != 1 || !marks_.empty()) fail(std::to_string(stack_.size()) + " values at its end");
    result_.tree.root = stack_.back();
    PickleCheck(values_).run();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& got) const { values_.fail("a pickle of torch.save", got); }
  [[noreturn]] void fail_code(PickleCode code) const {
    const auto number = static_cast<unsigned>(code);
    fail("the opcode " + std::to_string(number) +
         (number > 32 && number < 127 ? std::string(" ('") + static_cast<char>(number) + "')" : ""));
  }

  // --- bytes
  std::span<const std::byte> bytes(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("its end");
    const std::span<const std::byte> part = bytes_.subspan(at_, static_cast<std::size_t>(count));
    at_ += part.size();
    return part;
  }
  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  PickleCode take() { return static_cast<PickleCode>(number<std::uint8_t>()); }
  std::string line() {
    std::string text;
    while (true) {
      const char letter = static_cast<char>(number<std::uint8_t>());
      if (letter == '\n') return text;
      if (text.size() == kMaxPickleName)
        fail("a name of more than " + std::to_string(kMaxPickleName) + " bytes");
      text += letter;
    }
  }

  // --- the stack
  void push(Number value) { stack_.push_back(value); }
  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Number pop() {
    if (stack_.size() <= floor()) fail("a value missing");
    const Number value = stack_.back();
    stack_.pop_back();
    return value;
  }
  [[nodiscard]] Number top() const {
    if (stack_.size() <= floor()) fail("a value missing");
    return stack_.back();
  }
  std::vector<Number> pop_to_mark() {
    if (marks_.empty()) fail("a mark missing");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Number> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }
  std::vector<Number> pop_several(std::size_t count) {
    std::vector<Number> values(count);
    for (std::size_t i = count; i-- > 0;) values[i] = pop();
    return values;
  }

  // --- opcodes; each says whether the code was one of its own
  bool push_number(PickleCode code) {
    switch (code) {
      case PickleCode::none:
        push(values_.none());
        return true;
      case PickleCode::newtrue:
      case PickleCode::newfalse:
        push(values_.boolean(code == PickleCode::newtrue));
        return true;
      case PickleCode::binint:
        push(values_.integer(number<std::int32_t>()));
        return true;
      case PickleCode::binint1:
        push(values_.integer(number<std::uint8_t>()));
        return true;
      case PickleCode::binint2:
        push(values_.integer(number<std::uint16_t>()));
        return true;
      case PickleCode::long1:
        push(long_integer(bytes(number<std::uint8_t>())));
        return true;
      case PickleCode::binfloat: {
        auto value = number<double>();
        reverse_elements(std::as_writable_bytes(std::span(&value, 1)), sizeof(value));
        push(values_.real(value));
        return true;
      }
      default:
        return false;
    }
  }

  /// Two's complement of any length, little-endian. An integer above 64 bits becomes the nearest double.
  Number long_integer(std::span<const std::byte> digits) {
    constexpr std::size_t kMostDigits = 16;
    if (digits.size() > kMostDigits) fail("an integer of " + std::to_string(digits.size()) + " bytes");
    const bool is_negative = !digits.empty() && (digits.back() & std::byte{0x80}) != std::byte{0};
    if (digits.size() <= 8) {
      std::int64_t value = is_negative ? -1 : 0;
      if (!digits.empty()) std::memcpy(&value, digits.data(), digits.size());
      return values_.integer(value);
    }
    double value = is_negative ? -1 : 0;
    for (std::size_t i = digits.size(); i-- > 0;) value = value * 256 + std::to_integer<int>(digits[i]);
    return values_.real(value);
  }

  bool push_text(PickleCode code) {
    std::uint64_t length = 0;
    if (code == PickleCode::binunicode || code == PickleCode::binstring) {
      length = number<std::uint32_t>();
    } else if (code == PickleCode::short_binunicode || code == PickleCode::short_binstring) {
      length = number<std::uint8_t>();
    } else if (code == PickleCode::binunicode8) {
      length = number<std::uint64_t>();
    } else {
      return false;
    }
    const std::span<const std::byte> text = bytes(length);
    push(values_.text({reinterpret_cast<const char*>(text.data()), text.size()}));
    return true;
  }

  bool push_container(PickleCode code) {
    switch (code) {
      case PickleCode::mark:
        marks_.push_back(stack_.size());
        return true;
      case PickleCode::empty_list:
        push(values_.container(Kind::list, {}));
        return true;
      case PickleCode::empty_dict:
        push(values_.container(Kind::map, {}));
        return true;
      case PickleCode::empty_tuple:
        push(values_.container(Kind::tuple, {}));
        return true;
      case PickleCode::tuple:
        push(values_.container(Kind::tuple, pop_to_mark()));
        return true;
      case PickleCode::tuple1:
      case PickleCode::tuple2:
      case PickleCode::tuple3: {
        const auto count = static_cast<std::size_t>(code) - static_cast<std::size_t>(PickleCode::tuple1) + 1;
        push(values_.container(Kind::tuple, pop_several(count)));
        return true;
      }
      default:
        return false;
    }
  }

  bool fill_container(PickleCode code) {
    const bool is_list = code == PickleCode::append || code == PickleCode::appends;
    std::vector<Number> values;
    if (code == PickleCode::append) {
      values = pop_several(1);
    } else if (code == PickleCode::setitem) {
      values = pop_several(2);
    } else if (code == PickleCode::appends || code == PickleCode::setitems) {
      values = pop_to_mark();
    } else {
      return false;
    }
    if (!is_list && values.size() % 2 != 0) fail("a key without a value");
    values_.append(top(), is_list ? Kind::list : Kind::map, values);
    return true;
  }

  bool use_memo(PickleCode code) {
    if (code == PickleCode::binget || code == PickleCode::long_binget) {
      const std::size_t place = memo_place(code == PickleCode::long_binget);
      if (place >= memo_.size()) fail("the value " + std::to_string(place) + " before it is there");
      push(memo_[place]);
      return true;
    }
    if (code != PickleCode::binput && code != PickleCode::long_binput && code != PickleCode::memoize)
      return false;
    const std::size_t place =
        code == PickleCode::memoize ? memo_.size() : memo_place(code == PickleCode::long_binput);
    // Python counts: each value that is kept has the next number, so none needs more memory than its bytes.
    if (place > memo_.size()) fail("the number " + std::to_string(place) + " for a value out of order");
    if (place == memo_.size()) memo_.push_back(0);
    memo_[place] = top();
    return true;
  }
  std::size_t memo_place(bool is_long) { return is_long ? number<std::uint32_t>() : number<std::uint8_t>(); }

  bool run_call(PickleCode code) {
    switch (code) {
      case PickleCode::frame:
        if (number<std::uint64_t>() > bytes_.size() - at_) fail("a frame beyond its end");
        return true;
      case PickleCode::global: {
        const std::string module = line();
        push(values_.name(module, line()));
        return true;
      }
      case PickleCode::stack_global: {
        const Number name = pop(), module = pop();
        push(values_.name(values_.text_of(module), values_.text_of(name)));
        return true;
      }
      case PickleCode::binpersid:
        push(values_.storage(pop()));
        return true;
      case PickleCode::reduce: {
        const Number arguments = pop(), function = pop();
        push(values_.call(function, arguments));
        return true;
      }
      case PickleCode::build:
        static_cast<void>(pop());  // attributes of an OrderedDict: the versions of a state dict
        if (values_.kind(top()) != Kind::map) fail("attributes of a " + values_.shown(top()));
        return true;
      default:
        return false;
    }
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  Pickled result_;
  PickledValues values_;
  std::vector<Number> stack_, memo_;
  std::vector<std::size_t> marks_;  ///< sizes of the stack
};

}  // namespace

Pickled unpickle(const std::string& op, std::span<const std::byte> bytes, std::string_view pickle,
                 std::size_t* used) {
  return Unpickler(op, bytes, pickle).run(used);
}

}  // namespace mezzo::io::detail
