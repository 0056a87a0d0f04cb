#include "kernels/declaration.hpp"

#include <algorithm>
#include <stdexcept>

namespace dgo {
namespace {

// Function-local: declarations are static objects of other units.
std::vector<const Declaration*>& registered() {
    static std::vector<const Declaration*> all;
    return all;
}

}  // namespace

Declaration::Declaration(const char* signature, const char* operands, const char* text)
    : operands(operands), text(text), signature_(signature) {
    name = signature_.substr(0, signature_.find('('));
    plain = name == signature_;
    if (const size_t dot = name.find('.'); dot != std::string::npos) {
        scope = name.substr(0, dot);
        name.erase(0, dot + 1);
    }
    registered().push_back(this);
}

void Declaration::describe(const TypeName* types) {
    if (plain) {
        for (; *types; ++types) parameters.push_back({"self", (*types)(), ""});
        return;
    }
    std::string rest = signature_.substr(signature_.find('(') + 1);
    rest.pop_back();
    for (; *types; ++types) {
        const size_t end = std::min(rest.find(", "), rest.size());
        const size_t equals = std::min(rest.find('='), end);
        parameters.push_back(
            {rest.substr(0, equals), (*types)(), equals == end ? "" : rest.substr(equals + 1, end - equals - 1)});
        rest.erase(0, end + 2);
    }
    if (!rest.empty() || (!parameters.empty() && parameters.back().name.empty())) {
        throw std::logic_error("'" + signature_ + "' names other parameters than its function has");
    }
}

std::vector<const Declaration*> declarations() {
    std::vector<const Declaration*> all = registered();
    const auto order = [](const Declaration* d) { return std::tie(d->scope, d->name); };
    std::sort(all.begin(), all.end(), [&](auto a, auto b) { return order(a) < order(b); });
    return all;
}

}  // namespace dgo
