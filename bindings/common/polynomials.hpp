// Integers of a trace that remember how they follow from unknown dims: polynomials of atoms, and the conditions under
// which answers about them hold. An atom is an unknown dim, a quotient that leaves a remainder, or the result of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dgo {

// of coefficients and values; operations on sizes throw std::overflow_error beyond
__extension__ using Wide = __int128;

// A polynomial by its number, or an integer where there is none; `value` is that in the trace.
struct Size {
    bool varies() const { return number >= 0; }
    bool operator==(const Size& other) const { return number == other.number && value == other.value; }

    Wide value = 0;
    int number = -1;
};

class Polynomials {
public:
    using Atoms = std::vector<int>;  // of a product, ascending
    using Terms = std::vector<std::pair<int, Wide>>;  // products by ascending number, each with its coefficient
    enum class Ask { below, zero };  // whether a size is below 0, or equals 0
    struct Interval {
        Wide low, high;  // for all dims in the trace's range; beyond +-2**120 unknown
    };
    struct Condition {
        int number;
        Ask ask;
        bool holds;
    };
    // An unknown dim or the result of a call has no operands.
    struct Atom {
        Wide value;
        Interval interval;
        bool is_quotient = false;
        Size a{}, b{};
    };

    Polynomials() { product_of(Atoms()); }
    Size atom(Wide value, Interval interval) { return add_atom({value, interval}); }
    Size sum(Size a, Size b, Wide times = 1);  // a + times * b
    Size product(Size a, Size b);
    Size quotient(Size a, Size b);  // its floor; b is not 0
    Size total(const std::vector<Size>& sizes);
    // Whether a is a multiple of b for all dims, as far as the terms tell; b is one product.
    bool is_multiple(Size a, Size b) const;
    Interval interval(Size size) const {
        return size.varies() ? interval(terms(size.number)) : Interval{size.value, size.value};
    }

    // Adds the condition of the answer, unless the answer is the same for all dims or the trace is closed.
    bool holds(Size size, Ask ask);
    Wide pin(Size size);
    // Conditions that are added from here on, and answers, are apart until `end_apart` returns these conditions.
    void begin_apart();
    std::vector<Condition> end_apart();

    const std::vector<Condition>& conditions() const { return conditions_; }
    const Terms& terms(int number) const { return sizes_[at(number)].first; }
    const Atoms& atoms_of(int product) const { return *products_[at(product)]; }
    const Atom& atom(int number) const { return atoms_[at(number)]; }
    Size size(int number) const { return {sizes_[at(number)].second, number}; }
    std::size_t count() const { return sizes_.size(); }

    bool closed = false;

private:
    struct Hash {
        std::size_t operator()(const Terms& terms) const;
    };
    using Answers = std::unordered_map<int, bool>;
    using Key = std::pair<std::pair<Wide, int>, std::pair<Wide, int>>;

    static std::size_t at(int number) { return static_cast<std::size_t>(number); }
    Size add_atom(Atom atom);
    Size size_of(Terms terms);
    int product_of(const Atoms& atoms);
    int product_of(int a, int b);
    Terms terms_of(Size size) const;
    Wide value_of(const Terms& terms) const;
    Interval interval(const Terms& terms) const;
    Interval bounds(const Terms& terms) const;
    // Divides by one product: the terms of the exact quotient, and those of `a` that are left.
    std::pair<std::map<Atoms, Wide>, Terms> divided(Size a, Size b) const;
    Size new_quotient(Size a, Size b);
    Size remaining(Size a, Size b);

    std::vector<Atom> atoms_;
    std::deque<std::pair<Terms, Wide>> sizes_;
    std::vector<const Atoms*> products_;
    std::map<Atoms, int> products_by_atoms_;
    std::unordered_map<std::uint64_t, int> products_by_pair_;
    std::unordered_map<Terms, int, Hash> sizes_by_terms_;
    std::map<Key, Size> quotients_, remainders_;
    Answers answers_;
    std::vector<Condition> conditions_;
    std::vector<std::pair<std::vector<Condition>, Answers>> outer_;
};

}  // namespace dgo
