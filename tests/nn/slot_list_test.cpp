// SlotList: elements stay where they were made, and a failed one leaves nothing behind.
#include "mezzo/nn/module/slot_list.h"

#include <stdexcept>
#include <utility>

#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

/// An element that can refuse to be made.
struct Element {
  Element(int given_number, bool fails) : number(given_number) {
    if (fails) throw std::runtime_error("no element");
  }
  int number;
};

TEST(SlotList, GrowingMovesNoElement) {
  SlotList<Element> list;
  std::vector<const Element*> places;
  for (int i = 0; i < 100; ++i) places.push_back(&list.emplace_back(i, false));
  ASSERT_EQ(list.size(), 100U);
  int i = 0;
  for (const Element& element : std::as_const(list)) {
    EXPECT_EQ(&element, places[i]);
    EXPECT_EQ(element.number, i++);
  }
  EXPECT_EQ(i, 100);
}

TEST(SlotList, IsAsItWasWhenAnElementThrows) {
  SlotList<Element> list;
  list.emplace_back(7, false);
  EXPECT_THROW(list.emplace_back(8, true), std::runtime_error);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].number, 7);
  EXPECT_EQ(list.emplace_back(9, false).number, 9);
}

TEST(SlotList, ACopyHasElementsOfItsOwn) {
  SlotList<Element> list;
  list.emplace_back(1, false);
  SlotList<Element> copy(list);
  copy[0].number = 2;
  EXPECT_EQ(list[0].number, 1);
  EXPECT_EQ(copy.size(), 1U);
}

}  // namespace

}  // namespace mezzo::nn
