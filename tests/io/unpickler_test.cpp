// Hostile and broken pickles: each is refused by a line that says what and where, in time and memory that its
// size bounds.
#include "mezzo/io/detail/torch/unpickler.h"

#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "mezzo/io/torch_value.h"
#include "mezzo/tests/io/torch_files.h"

namespace mezzo::io::detail {
namespace {

using namespace pickle;

Pickled unpickled(const std::string& bytes) { return unpickle("op", std::as_bytes(std::span(bytes))); }

/// What is refused of a pickle with this body; "" when it is not.
std::string refusal(const std::string& body) {
  try {
    static_cast<void>(unpickled(begin() + body));
    return {};
  } catch (const IoError& error) {
    EXPECT_EQ(error.op(), "op");
    EXPECT_LT(std::string(error.what()).size(), 1000U);
    return "expected " + error.expected() + ", got " + error.got();
  }
}

constexpr const char* kAllowed = "expected tensors, dicts, lists, numbers and strings, got ";
constexpr const char* kPickle = "expected a pickle of torch.save, got ";

TEST(Unpickler, CallsAreRefusedByName) {
  EXPECT_EQ(refusal(name("os", "system") + text("echo") + "\x85R."),
            std::string(kAllowed) + "a call of os.system at byte 3 of data.pkl");
  EXPECT_EQ(refusal(text("posix") + text("system") + "\x93)R."),
            std::string(kAllowed) + "a call of posix.system at byte 24 of data.pkl");
  EXPECT_EQ(refusal(name("builtins", "eval") + ")R."),
            std::string(kAllowed) + "a call of builtins.eval at byte 3 of data.pkl");
  EXPECT_EQ(refusal(name("torch", "load") + ")R."),
            std::string(kAllowed) + "a call of torch.load at byte 3 of data.pkl");
  EXPECT_EQ(refusal(name("torch", "") + ")R."),
            std::string(kAllowed) + "a call of torch. at byte 3 of data.pkl");
  EXPECT_EQ(refusal(name("a b", "c\x1b") + "."),
            std::string(kAllowed) + "a call of \"a b.c\\u001b\" at byte 3 of data.pkl");
  EXPECT_EQ(refusal(name("torch", "float32") + ")R."),
            std::string(kAllowed) + "a call of torch.float32 at byte 19 of data.pkl");
  EXPECT_EQ(refusal(name("torch", "FloatStorage") + ")R."),
            std::string(kAllowed) + "a call of torch.FloatStorage at byte 24 of data.pkl");
  EXPECT_NE(refusal("c" + std::string(300, 'x') + "\ny\n.").find("a name of more than 200 bytes"),
            std::string::npos);
}

TEST(Unpickler, NothingOfPythonsIsLeftOver) {
  EXPECT_EQ(refusal(name("collections", "OrderedDict") + "."),
            std::string(kAllowed) + "a reference to collections.OrderedDict at byte 28 of data.pkl");
  EXPECT_EQ(refusal(storage("FloatStorage", "0", 1) + "."),
            std::string(kAllowed) + "a reference to storage at byte 57 of data.pkl");
  EXPECT_EQ(refusal("](" + name("torch", "Size") + "e."),
            std::string(kAllowed) + "a reference to torch.Size at byte 18 of data.pkl");
  EXPECT_EQ(refusal(name("torch", "int8") + "."), "") << "a dtype is a string";
}

TEST(Unpickler, OpcodesThatNobodyNeedsAreRefused) {
  EXPECT_EQ(refusal("i."), std::string(kPickle) + "the opcode 105 ('i') at byte 3 of data.pkl");
  EXPECT_EQ(refusal("\x81."), std::string(kPickle) + "the opcode 129 at byte 3 of data.pkl");
  for (const unsigned code : std::initializer_list<unsigned>{
           '0',  '1',  '2',  'F',  'I',  'L',  'P',  'S',  'V',  'd',  'g',  'l',  'o', 'p',
           0x82, 0x83, 0x84, 0x8B, 0x8E, 0x8F, 0x90, 0x91, 0x92, 0x96, 0x97, 0x98, 0,   0xFF})
    EXPECT_NE(refusal(std::string(1, static_cast<char>(code)) + "N.").find("got the opcode"),
              std::string::npos)
        << code;
}

TEST(Unpickler, WhatPythonTwoWrote) {
  const auto pair = [](const std::string& key, int value) { return "](U\x01" + key + integer(value) + "e"; };
  const std::string pairs = "](" + pair("a", 1) + pair("b", 2) + "e";
  const auto value = [](const std::string& bytes) {
    Pickled pickled = unpickled(begin() + bytes);
    const TorchTree::Number root = pickled.tree.root;
    return TorchValue(std::make_shared<const TorchTree>(std::move(pickled.tree)), root);
  };
  const TorchValue made = value(name("collections", "OrderedDict") + pairs + "\x85R.");
  ASSERT_TRUE(made.is_map());
  EXPECT_EQ(made["a"].as_int(), 1);
  EXPECT_EQ(made["b"].as_int(), 2);
  EXPECT_EQ(value("T" + number32(3) + "abc.").as_string(), "abc");
  EXPECT_EQ(refusal(name("collections", "OrderedDict") + "](" + text("a") + "e\x85R."),
            "expected an entry as a list, got str at byte 38 of data.pkl");
  EXPECT_EQ(refusal(name("collections", "OrderedDict") + "](](K\x01" + "ee\x85R."),
            "expected a key and a value, got 1 values at byte 37 of data.pkl");
}

TEST(Unpickler, MalformedBytesAreRefused) {
  const auto broken = [](const std::string& bytes) {
    try {
      static_cast<void>(unpickled(bytes));
    } catch (const IoError& error) {
      return error.got();
    }
    return std::string("nothing");
  };
  EXPECT_EQ(broken(""), "the first byte of another file at byte 1 of data.pkl");
  EXPECT_EQ(broken("(lp0\n."), "the first byte of another file at byte 1 of data.pkl");
  EXPECT_EQ(broken("\x80\x01N."), "protocol 1 at byte 1 of data.pkl");
  EXPECT_EQ(broken("\x80\x06N."), "protocol 6 at byte 1 of data.pkl");
  EXPECT_EQ(refusal("N"), std::string(kPickle) + "its end at byte 3 of data.pkl");
  EXPECT_EQ(refusal("NN."), std::string(kPickle) + "2 values at its end at byte 5 of data.pkl");
  EXPECT_EQ(refusal("."), std::string(kPickle) + "0 values at its end at byte 3 of data.pkl");
  EXPECT_EQ(refusal("N(."), std::string(kPickle) + "1 values at its end at byte 5 of data.pkl");
  EXPECT_EQ(refusal("N.N"), std::string(kPickle) + "more bytes behind its end at byte 4 of data.pkl");
  EXPECT_EQ(refusal("t."), std::string(kPickle) + "a mark missing at byte 3 of data.pkl");
  EXPECT_EQ(refusal("N(\x85t."), std::string(kPickle) + "a value missing at byte 5 of data.pkl")
      << "below the mark";
  EXPECT_EQ(refusal("a."), std::string(kPickle) + "a value missing at byte 3 of data.pkl");
  EXPECT_EQ(refusal("Na."), std::string(kPickle) + "a value missing at byte 4 of data.pkl");
  EXPECT_EQ(refusal("NNa."), "expected a list to add to, got None at byte 5 of data.pkl");
  EXPECT_EQ(refusal("]NNs."), "expected a dict to add to, got list at byte 6 of data.pkl");
  EXPECT_EQ(refusal("}(Nu."), std::string(kPickle) + "a key without a value at byte 6 of data.pkl");
  EXPECT_EQ(refusal("h\x05."), std::string(kPickle) + "the value 5 before it is there at byte 3 of data.pkl");
  EXPECT_EQ(refusal("Nr\xFF\xFF\xFF\xFF."),
            std::string(kPickle) + "the number 4294967295 for a value out of order at byte 4 of data.pkl");
  EXPECT_EQ(refusal("X" + number32(0xFFFFFFFFU) + "x."),
            std::string(kPickle) + "its end at byte 3 of data.pkl");
  EXPECT_EQ(refusal("\x8D" + std::string(8, '\xFF') + "."),
            std::string(kPickle) + "its end at byte 3 of data.pkl");
  EXPECT_EQ(refusal(text("\xFF") + "."),
            "expected strings in UTF-8, got \"\xEF\xBF\xBD\" at byte 3 of data.pkl");
  EXPECT_EQ(refusal("\x8A\xFF" + std::string(255, 'x') + "."),
            std::string(kPickle) + "an integer of 255 bytes at byte 3 of data.pkl");
  EXPECT_EQ(refusal("\x95" + std::string(8, '\xFF') + "N."),
            std::string(kPickle) + "a frame beyond its end at byte 3 of data.pkl");
  EXPECT_EQ(refusal("NNb."), std::string(kPickle) + "attributes of a None at byte 5 of data.pkl");
  const std::string whole =
      begin() + "}(" + text("a") + tensor(storage("FloatStorage", "0", 1), 0, "(t", "(t") + "u.";
  ASSERT_EQ(broken(whole), "nothing");
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(broken(whole.substr(0, length)), "nothing") << length;
}

TEST(Unpickler, CallsTakeTheRightArguments) {
  const std::string dict = name("collections", "OrderedDict");
  EXPECT_EQ(refusal(dict + "N\x85R."),
            "expected the entries of an OrderedDict as a list, got None at byte 30 of data.pkl");
  EXPECT_EQ(refusal(dict + "]R."),
            "expected arguments of collections.OrderedDict as a tuple, got list at byte 29 of data.pkl");
  EXPECT_EQ(refusal("N)R."), "expected a name of PyTorch's, got None at byte 5 of data.pkl");
  EXPECT_NE(refusal(name("torch", "Size") + "N\x85R.").find("as a tuple, got None"), std::string::npos);
  EXPECT_NE(refusal(name("torch", "device") + "N\x85R.").find("expected a string, got None"),
            std::string::npos);
  const std::string rebuild = name("torch._utils", "_rebuild_tensor_v2");
  EXPECT_NE(refusal(rebuild + ")R.").find("6 arguments for a tensor, got 0"), std::string::npos);
  EXPECT_NE(refusal(rebuild + "(NNNNNNtR.").find("the storage of a tensor, got None"), std::string::npos);
  EXPECT_NE(refusal("NQ.").find("expected a storage as a tuple, got None"), std::string::npos);
  EXPECT_NE(refusal(")Q.").find("expected a storage as ('storage', type, key, location, size)"),
            std::string::npos);
  EXPECT_NE(refusal("(" + text("storage") + dict + text("0") + text("cpu") + integer(1) + "tQ.")
                .find("expected a type of storage, got collections.OrderedDict"),
            std::string::npos);
  const std::string type = name("torch._tensor", "_rebuild_from_type_v2");
  EXPECT_NE(refusal(type + "(" + dict + name("torch", "Tensor") + ")NtR.")
                .find("a call of collections.OrderedDict"),
            std::string::npos);
  EXPECT_NE(refusal(type + "(" + type + name("torch", "Tensor") + ")NtR.").find("a call of torch._tensor"),
            std::string::npos)
      << "no recursion";
}

TEST(Unpickler, DictsHaveDistinctKeysOfTwoKinds) {
  EXPECT_EQ(refusal("}(" + text("a") + "N" + text("b") + "N" + text("a") + "Nu."),
            "expected distinct keys in a dict, got \"a\" twice at byte 27 of data.pkl");
  EXPECT_EQ(refusal("}(K\x01NK\x02NM\x01" + std::string(1, '\0') + "Nu."),
            "expected distinct keys in a dict, got 1 twice at byte 16 of data.pkl");
  EXPECT_EQ(refusal("}NNs."),
            "expected keys of dicts that are strings or ints, got None at byte 7 of data.pkl");
  EXPECT_EQ(refusal("}(K\x01N" + text("1") + "Nu."), "") << "1 and \"1\"";
}

TEST(Unpickler, ValuesThatContainThemselvesAreRefused) {
  const std::string cycle = "expected values that do not contain themselves, got one that does at byte ";
  EXPECT_EQ(refusal(std::string("]q\0h\0a.", 7)), cycle + "9 of data.pkl");
  EXPECT_EQ(refusal(std::string("}q\0", 3) + text("a") + std::string("h\0s.", 4)), cycle + "15 of data.pkl");
  EXPECT_EQ(refusal(std::string("]q\0]h\0aa.", 9)), cycle + "11 of data.pkl") << "two within each other";
  EXPECT_EQ(refusal(std::string("]q\0(h\0ta.", 9)), cycle + "11 of data.pkl");
}

std::string nested(std::size_t levels) {
  return std::string(levels, ']') + std::string(levels - 1, 'a') + ".";
}

TEST(Unpickler, LevelsAreLimited) {
  EXPECT_EQ(refusal(nested(kMaxTorchDepth)), "");
  EXPECT_EQ(
      refusal(nested(kMaxTorchDepth + 1)).find("expected at most 128 levels of lists and dicts, got more"),
      0U);
  EXPECT_EQ(refusal(nested(500'000)).find("expected at most 128 levels of lists and dicts, got more"), 0U);
  EXPECT_EQ(refusal("N" + std::string(500'000, '\x85') + ".").find("expected at most 128 levels"), 0U);
}

TEST(Unpickler, ValuesAreLimited) {
  EXPECT_EQ(refusal("](" + std::string(kMaxTorchValues, ']') + "e.")
                .find("expected at most 1048576 values, got more"),
            0U);
  EXPECT_EQ(refusal("](" + std::string(2 * kMaxTorchValues, 'N') + "e."), "")
      << "None takes no room of its own";
}

/// Level k is a list of level k - 1 twice: 2^k values for whoever counts each as often as it is named.
std::string doubled(std::size_t levels) {
  std::string bytes("]q\0", 3);
  for (std::size_t i = 1; i < levels; ++i) {
    const char before = static_cast<char>(i - 1), here = static_cast<char>(i);
    bytes += std::string("]q") + here + "(h" + before + "h" + before + "e";
  }
  return bytes;
}

TEST(Unpickler, SharedListsDoNotBlowUp) {
  // The lists lie below each other on the stack; the last of them is the result: a tuple holds all.
  const std::string body = "(" + doubled(100) + "t.";
  const Pickled pickled = unpickled(begin() + body);
  EXPECT_LT(pickled.tree.nodes.size(), 200U);
  const TorchValue value(std::make_shared<const TorchTree>(pickled.tree), pickled.tree.root);
  EXPECT_EQ(value[99][0][1].size(), 2U);
  EXPECT_THROW(static_cast<void>(value.tensors()), IoError) << "2^100 values";
}

TEST(Unpickler, WhatSharedTuplesAreCopiedForIsShort) {
  const std::string key(65, '0');
  EXPECT_EQ(refusal(storage("FloatStorage", key, 1) + "."),
            "expected a key of at most 64 bytes, got \"" + key + "\" at byte 120 of data.pkl");
  EXPECT_NE(refusal(name("torch", "device") + text(key) + "\x85R.").find("a device of at most 64 bytes"),
            std::string::npos);
}

TEST(Unpickler, NamesOfTensorsInAllAreLimited) {
  // A dict of one key of 1 MB, which holds a list of 200 tensors: 200 MB of names.
  const std::string x = tensor(storage("FloatStorage", "0", 1), 0, "(t", "(t") + std::string("q\0", 2);
  std::string gets;
  for (int i = 0; i < 200; ++i) gets += std::string("h\0", 2);
  Pickled pickled = unpickled(begin() + "}" + text(std::string(1'000'000, 'k')) + "](" + x + gets + "es.");
  pickled.tree.tensors.resize(1);
  const TorchValue value(std::make_shared<const TorchTree>(pickled.tree), pickled.tree.root);
  EXPECT_EQ(value.entry(0).second.tensors().size(), 201U);
  EXPECT_THROW(static_cast<void>(value.tensors()), IoError);
}

TEST(Unpickler, NamesOfTensorsMustDiffer) {
  const std::string x = tensor(storage("FloatStorage", "0", 1), 0, "(t", "(t");
  Pickled pickled = unpickled(begin() + "}(" + text("a.b") + x + text("a") + "}" + text("b") + x + "su.");
  pickled.tree.tensors.resize(2);
  const TorchValue value(std::make_shared<const TorchTree>(pickled.tree), pickled.tree.root);
  EXPECT_THROW(static_cast<void>(value.tensors()), IoError);
}

}  // namespace
}  // namespace mezzo::io::detail
