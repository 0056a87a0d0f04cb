// The instruction sets that builtin kernels are compiled for. Of each kind of code one is chosen at the first call.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu.hpp"
#include "kernels/product/dot.hpp"

namespace dgo {

class SetTable {
public:
    struct Row {
        const void* code;  // null: not in this build
        const char* name;
        Needs needs;
    };

    // Rows in the order of preference; those that need test sets are taken by their names only.
    SetTable(const char* kind, const char* variable, std::vector<Row> rows);
    SetTable(const SetTable&) = delete;

    // The row by its name, whether or not this CPU runs it; throws where there is none.
    const Row& named(const std::string& name) const;
    // The code of a set that this CPU runs, by its name, or of the chosen one without; throws where there is none.
    const void* of(const std::string& name) const;
    // The name of the chosen one, or empty, and why it is no better one, or empty.
    std::pair<std::string, std::string> isa_and_reason() const {
        return {chosen_ == nullptr ? "" : chosen_->name, reason_};
    }

private:
    const char *kind_, *variable_;
    std::vector<Row> rows_;
    const Row* chosen_ = nullptr;
    std::string reason_;
};

template <class Code>
struct Sets : SetTable {
    using SetTable::SetTable;

    const Code& of(const std::string& name) const { return *static_cast<const Code*>(SetTable::of(name)); }
};

const Sets<Dot>& bf16_sets();
const Sets<Dot>& int8_sets();

// For example 'dot_bf16_amx_32x32'.
std::string dot_name(const Dot& dot);

}  // namespace dgo
