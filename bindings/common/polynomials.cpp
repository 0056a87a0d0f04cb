#include "common/polynomials.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <stdexcept>

namespace dgo {
namespace {

using Interval = Polynomials::Interval;
constexpr Wide kMost = Wide(1) << 120;

[[noreturn]] void overflow() { throw std::overflow_error("sizes of a trace have at most 128 bits"); }

Wide added(Wide a, Wide b) {
    Wide result;
    if (__builtin_add_overflow(a, b, &result)) overflow();
    return result;
}

Wide multiplied(Wide a, Wide b) {
    Wide result;
    if (__builtin_mul_overflow(a, b, &result)) overflow();
    return result;
}

Wide floored(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

// Bounds beyond kMost are unknown, and stay so.
Wide bound(Wide value) { return std::clamp(value, -kMost, kMost); }

Wide product_bound(Wide a, Wide b) {
    Wide result;
    if (__builtin_mul_overflow(a, b, &result)) return (a < 0) == (b < 0) ? kMost : -kMost;
    return bound(result);
}

Interval sum_bounds(Interval a, Interval b) {
    return {a.low <= -kMost || b.low <= -kMost ? -kMost : bound(a.low + b.low),
            a.high >= kMost || b.high >= kMost ? kMost : bound(a.high + b.high)};
}

Interval product_bounds(Interval a, Interval b) {
    const auto [low, high] = std::minmax({product_bound(a.low, b.low), product_bound(a.low, b.high),
                                          product_bound(a.high, b.low), product_bound(a.high, b.high)});
    return {low, high};
}

}  // namespace

std::size_t Polynomials::Hash::operator()(const Terms& terms) const {
    std::uint64_t hash = terms.size();
    for (const auto& [product, c] : terms)
        hash =
            (hash ^ (static_cast<std::uint64_t>(product) << 40 ^ static_cast<std::uint64_t>(c))) * 0x9E3779B97F4A7C15u,
        hash ^= hash >> 29;
    return hash;
}

int Polynomials::product_of(const Atoms& atoms) {
    const auto [place, is_new] = products_by_atoms_.try_emplace(atoms, static_cast<int>(products_.size()) + 1);
    if (is_new) products_.push_back(&place->first);
    return place->second - 1;
}

int Polynomials::product_of(int a, int b) {
    const auto key = static_cast<std::uint64_t>(std::min(a, b)) << 32 | static_cast<std::uint64_t>(std::max(a, b));
    const auto [place, is_new] = products_by_pair_.try_emplace(key, 0);
    if (is_new) {
        Atoms both;
        std::merge(atoms_of(a).begin(), atoms_of(a).end(), atoms_of(b).begin(), atoms_of(b).end(),
                   std::back_inserter(both));
        place->second = product_of(both);
    }
    return place->second;
}

Size Polynomials::size_of(Terms terms) {
    terms.erase(std::remove_if(terms.begin(), terms.end(), [](const auto& term) { return term.second == 0; }),
                terms.end());
    if (terms.empty()) return {};
    if (terms.size() == 1 && atoms_of(terms[0].first).empty()) return {terms[0].second};
    const auto known = sizes_by_terms_.find(terms);
    if (known != sizes_by_terms_.end()) return size(known->second);
    const int number = static_cast<int>(sizes_.size());
    sizes_.emplace_back(terms, value_of(terms));
    sizes_by_terms_.emplace(std::move(terms), number);
    return size(number);
}

Size Polynomials::add_atom(Atom atom) {
    atoms_.push_back(std::move(atom));
    return size_of({{product_of({static_cast<int>(atoms_.size()) - 1}), 1}});
}

Polynomials::Terms Polynomials::terms_of(Size size) const {
    if (size.varies()) return terms(size.number);
    // the product without atoms is the first one of all
    return size.value ? Terms{{0, size.value}} : Terms{};
}

Wide Polynomials::value_of(const Terms& terms) const {
    Wide total = 0;
    for (const auto& [product, c] : terms) {
        Wide value = c;
        for (const int number : atoms_of(product)) value = multiplied(value, atom(number).value);
        total = added(total, value);
    }
    return total;
}

Size Polynomials::sum(Size a, Size b, Wide times) {
    if (!a.varies() && !b.varies()) return {added(a.value, multiplied(times, b.value))};
    const Terms left = terms_of(a), right = terms_of(b);
    Terms result;
    result.reserve(left.size() + right.size());
    auto x = left.begin();
    for (const auto& [product, c] : right) {
        while (x != left.end() && x->first < product) result.push_back(*x++);
        const Wide own = multiplied(c, times);
        if (x != left.end() && x->first == product) {
            result.emplace_back(product, added(x++->second, own));
        } else {
            result.emplace_back(product, own);
        }
    }
    result.insert(result.end(), x, left.end());
    return size_of(std::move(result));
}

Size Polynomials::total(const std::vector<Size>& sizes) {
    std::map<int, Wide> sums;
    for (const Size size : sizes)
        for (const auto& [product, c] : terms_of(size)) sums[product] = added(sums[product], c);
    return size_of(Terms(sums.begin(), sums.end()));
}

Size Polynomials::product(Size a, Size b) {
    if (!a.varies()) std::swap(a, b);
    if (!a.varies()) return {multiplied(a.value, b.value)};
    if (!b.varies()) {
        Terms result = terms(a.number);
        for (auto& [product, c] : result) c = multiplied(c, b.value);
        return size_of(std::move(result));
    }
    std::map<int, Wide> sums;
    for (const auto& [product, c] : terms(a.number)) {
        for (const auto& [factor, by] : terms(b.number)) {
            Wide& own = sums[product_of(product, factor)];
            own = added(own, multiplied(c, by));
        }
    }
    return size_of(Terms(sums.begin(), sums.end()));
}

Polynomials::Interval Polynomials::bounds(const Terms& terms) const {
    Interval total{0, 0};
    for (const auto& [product, c] : terms) {
        Interval own{1, 1};
        for (const int number : atoms_of(product)) own = product_bounds(own, atom(number).interval);
        total = sum_bounds(total, product_bounds(own, {c, c}));
    }
    return total;
}

Polynomials::Interval Polynomials::interval(const Terms& terms) const {
    Interval result = bounds(terms);
    // b * (a // b) is a - r, with a remainder r from 0 to b - 1
    for (const auto& [product, c] : terms) {
        if (atoms_of(product).size() != 1) continue;
        const Atom& quotient = atom(atoms_of(product)[0]);
        if (!quotient.is_quotient || quotient.b.varies() || c % quotient.b.value != 0) continue;
        const Wide b = quotient.b.value, times = c / b;
        std::map<int, Wide> rest(terms.begin(), terms.end());
        rest.erase(product);
        for (const auto& [other, by] : terms_of(quotient.a)) rest[other] = added(rest[other], multiplied(times, by));
        Terms left;
        std::copy_if(rest.begin(), rest.end(), std::back_inserter(left),
                     [](const auto& term) { return term.second != 0; });
        const Interval least = interval(left);
        const Wide most = multiplied(times, b - 1);
        result.low = std::max(result.low, sum_bounds(least, {std::min<Wide>(-most, 0), 0}).low);
        result.high = std::min(result.high, sum_bounds(least, {0, std::max<Wide>(-most, 0)}).high);
        break;
    }
    return result;
}

bool Polynomials::holds(Size size, Ask ask) {
    const bool answer = ask == Ask::below ? size.value < 0 : size.value == 0;
    if (!size.varies()) return answer;
    const auto [place, is_new] = answers_.try_emplace(size.number * 2 + (ask == Ask::below ? 1 : 0), answer);
    if (is_new && !closed) {
        const auto [low, high] = interval(size);
        const bool always = ask == Ask::below && high < 0;
        const bool never = low >= (ask == Ask::below ? 0 : 1) || (ask == Ask::zero && high < 0);
        if (!always && !never) conditions_.push_back({size.number, ask, answer});
    }
    return answer;
}

Wide Polynomials::pin(Size size) {
    if (!closed) holds(sum(size, {size.value}, -1), Ask::zero);
    return size.value;
}

void Polynomials::begin_apart() {
    outer_.emplace_back(std::move(conditions_), answers_);
    conditions_.clear();
}

std::vector<Polynomials::Condition> Polynomials::end_apart() {
    std::swap(conditions_, outer_.back().first);
    std::swap(answers_, outer_.back().second);
    std::vector<Condition> apart = std::move(outer_.back().first);
    outer_.pop_back();
    return apart;
}

std::pair<std::map<Polynomials::Atoms, Wide>, Polynomials::Terms> Polynomials::divided(Size a, Size b) const {
    const auto& [divisor, by] = terms(b.number)[0];
    const Atoms& atoms = atoms_of(divisor);
    std::map<Atoms, Wide> exact;
    Terms rest;
    for (const auto& [product, c] : terms_of(a)) {
        const Atoms& own = atoms_of(product);
        if (c % by == 0 && std::includes(own.begin(), own.end(), atoms.begin(), atoms.end())) {
            Atoms left;
            std::set_difference(own.begin(), own.end(), atoms.begin(), atoms.end(), std::back_inserter(left));
            exact[left] = c / by;
        } else {
            rest.emplace_back(product, c);
        }
    }
    return {exact, rest};
}

bool Polynomials::is_multiple(Size a, Size b) const {
    return b.varies() && terms(b.number).size() == 1 && divided(a, b).second.empty();
}

Size Polynomials::quotient(Size a, Size b) {
    if (!a.varies() && !b.varies()) return {floored(a.value, b.value)};
    if (b.varies()) {
        holds(b, Ask::zero);
        holds(b, Ask::below);
    }
    const Key key{{a.value, a.number}, {b.value, b.number}};
    const auto known = quotients_.find(key);
    if (known != quotients_.end()) return known->second;
    return quotients_[key] = new_quotient(a, b);
}

// The exact part is a polynomial, and the rest an atom.
Size Polynomials::new_quotient(Size a, Size b) {
    if (b.varies()) {
        if (terms(b.number).size() != 1) return remaining(a, b);
        const auto parts = divided(a, b);
        std::map<int, Wide> exact;
        for (const auto& [atoms, c] : parts.first) exact[product_of(atoms)] = c;
        const Size quotient = size_of(Terms(exact.begin(), exact.end())), left = size_of(parts.second);
        return left == Size() ? quotient : sum(quotient, remaining(left, b));
    }
    if (b.value < 0) return quotient(sum({}, a, -1), {-b.value});
    Terms exact = terms(a.number), rest = exact;
    for (auto& [product, c] : exact) c = floored(c, b.value);
    for (auto& [product, c] : rest) c -= floored(c, b.value) * b.value;
    const Size quotient = size_of(std::move(exact)), left = size_of(std::move(rest));
    return left.varies() ? sum(quotient, remaining(left, b)) : quotient;
}

Size Polynomials::remaining(Size a, Size b) {
    const Interval dividend = interval(a);
    Interval bounds{-(Wide(1) << 63), (Wide(1) << 63) - 1};
    if (!b.varies()) {
        if (floored(dividend.low, b.value) == floored(dividend.high, b.value)) return {floored(dividend.low, b.value)};
        bounds = {floored(dividend.low, b.value), floored(dividend.high, b.value)};
    } else if (dividend.low >= 0 && b.value > 0) {
        // the divisor is above 0 by a condition
        bounds = {0, dividend.high};
    }
    const Key key{{a.value, a.number}, {b.value, b.number}};
    const auto known = remainders_.find(key);
    if (known != remainders_.end()) return known->second;
    return remainders_[key] = add_atom({floored(a.value, b.value), bounds, true, a, b});
}

}  // namespace dgo
