// A kernel declares itself once, next to its factory: binding, type stub, help and fuzzer follow from that. So do the
// functions and the small classes that go with kernels. None of it knows Python.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/kernel.hpp"

namespace dgo {

struct ScratchKernel;

using Handle = void*;  // a value of the language on the other side of the border

// Bytes that are not text.
struct Bytes {
    std::string bytes;
};

// The values of a call. Reading throws the other language's error where the type is another one.
class Border {
public:
    struct Items {
        Handle* first;
        size_t count;
    };
    virtual ~Border() = default;
    virtual int64_t integer(Handle value, int64_t least, int64_t most) = 0;
    virtual double real(Handle value) = 0;
    virtual bool truth(Handle value) = 0;
    virtual std::string text(Handle value) = 0;
    virtual bool absent(Handle value) = 0;
    virtual Items items(Handle value) = 0;  // valid as long as this object
    virtual Items items(Handle value, size_t count) = 0;
    virtual std::shared_ptr<Kernel> kernel(Handle value) = 0;
    virtual const void* object(Handle value, const char* type) = 0;

    virtual Handle give(int64_t value) = 0;
    virtual Handle give(double value) = 0;
    virtual Handle give(bool value) = 0;
    virtual Handle give(const std::string& value) = 0;
    virtual Handle give(const Bytes& value) = 0;
    virtual Handle give(const Dims& value) = 0;
    virtual Handle give_tuple(std::initializer_list<Handle> parts) = 0;
    virtual Handle give(std::shared_ptr<Kernel> kernel) = 0;
    virtual Handle give(std::shared_ptr<const void> object, const char* type) = 0;

    size_t position = 0;  // the number of the argument that is read
};

// How a C++ type is read, written and called in a stub. Below: objects of a class, which has its name as kClass.
template <typename T>
struct Value {
    static std::string type() { return T::kClass; }
    static const T& read(Border& border, Handle value) {
        return *static_cast<const T*>(border.object(value, T::kClass));
    }
    static Handle write(Border& border, T value) {
        return border.give(std::make_shared<const T>(std::move(value)), T::kClass);
    }
};

template <typename T>
struct Integer {
    static std::string type() { return "int"; }
    static T read(Border& border, Handle value) {
        using Limits = std::numeric_limits<T>;
        return static_cast<T>(border.integer(value, Limits::min(), Limits::max()));
    }
    static Handle write(Border& border, T value) { return border.give(int64_t{value}); }
};
template <>
struct Value<int64_t> : Integer<int64_t> {};
template <>
struct Value<int> : Integer<int> {};

template <>
struct Value<double> {
    static std::string type() { return "float"; }
    static double read(Border& border, Handle value) { return border.real(value); }
    static Handle write(Border& border, double value) { return border.give(value); }
};

template <>
struct Value<bool> {
    static std::string type() { return "bool"; }
    static bool read(Border& border, Handle value) { return border.truth(value); }
    static Handle write(Border& border, bool value) { return border.give(value); }
};

template <>
struct Value<std::string> {
    static std::string type() { return "str"; }
    static std::string read(Border& border, Handle value) { return border.text(value); }
    static Handle write(Border& border, const std::string& value) { return border.give(value); }
};

template <>
struct Value<Bytes> {
    static std::string type() { return "bytes"; }
    static Handle write(Border& border, const Bytes& value) { return border.give(value); }
};

template <typename T>
struct Value<std::optional<T>> {
    static std::string type() { return Value<T>::type() + " | None"; }
    static std::optional<T> read(Border& border, Handle value) {
        return border.absent(value) ? std::nullopt : std::optional<T>(Value<T>::read(border, value));
    }
};

template <typename T>
struct Value<std::vector<T>> {
    static std::string type() { return "Sequence[" + Value<T>::type() + "]"; }
    static std::vector<T> read(Border& border, Handle value) {
        const Border::Items items = border.items(value);
        std::vector<T> values;
        values.reserve(items.count);
        for (size_t i = 0; i < items.count; ++i) values.push_back(Value<T>::read(border, items.first[i]));
        return values;
    }
    static Handle write(Border& border, const std::vector<T>& value) { return border.give(value); }
};

template <typename... T>
struct Value<std::tuple<T...>> {
    static std::string type() {
        std::string types;
        ((types += (types.empty() ? "" : ", ") + Value<T>::type()), ...);
        return "tuple[" + types + "]";
    }
    static std::tuple<T...> read(Border& border, Handle value) {
        return read(border, border.items(value, sizeof...(T)).first, std::index_sequence_for<T...>{});
    }
    static Handle write(Border& border, const std::tuple<T...>& value) {
        return std::apply([&](const T&... parts) { return border.give_tuple({Value<T>::write(border, parts)...}); },
                          value);
    }

private:
    template <size_t... I>
    static std::tuple<T...> read(Border& border, const Handle* items, std::index_sequence<I...>) {
        return {Value<T>::read(border, items[I])...};
    }
};
template <typename A, typename B>
struct Value<std::pair<A, B>> : Value<std::tuple<A, B>> {
    static std::pair<A, B> read(Border& border, Handle value) {
        auto [a, b] = Value<std::tuple<A, B>>::read(border, value);
        return {std::move(a), std::move(b)};
    }
};

template <>
struct Value<std::shared_ptr<Kernel>> {
    static std::string type() { return "Kernel"; }
    static std::shared_ptr<Kernel> read(Border& border, Handle value) { return border.kernel(value); }
    static Handle write(Border& border, std::shared_ptr<Kernel> kernel) { return border.give(std::move(kernel)); }
};
template <>
struct Value<std::unique_ptr<Kernel>> : Value<std::shared_ptr<Kernel>> {};
template <>
struct Value<std::unique_ptr<ScratchKernel>> : Value<std::shared_ptr<Kernel>> {
    static std::string type() { return "ScratchKernel"; }
};

// `signature`, as Python would have it:
//   copy(shape, dtype, strides=())   a function; "..." as a default is an object of the class made of nothing
//   Epilogue(steps=())                   the constructor of a class, which the function returns by value
//   Epilogue.packed_size(self, isa='')   its method
//   Epilogue.operands                    its property; of a function without parameters, its constant
class Declaration {
public:
    using TypeName = std::string (*)();
    struct Parameter {
        std::string name, type, initial;  // the default as a literal of Python, empty for none
    };

    // `operands`: of run(), in order, with their shapes where the signature does not tell them: [of some kernels], so
    // many...
    template <typename R, typename... A>
    Declaration(const char* signature, R (*function)(A...), const char* operands, const char* text)
        : Declaration(signature, operands, text) {
        returns = Value<std::decay_t<R>>::type();
        function_ = reinterpret_cast<void (*)()>(function);
        call_ = called<R, A...>;
        static constexpr TypeName kTypes[] = {Value<std::decay_t<A>>::type..., nullptr};
        describe(kTypes);
    }
    template <typename R, typename... A>
    Declaration(const char* signature, R (*function)(A...), const char* text)
        : Declaration(signature, function, "", text) {}
    // A class that Python makes none of.
    Declaration(const char* name, const char* text) : Declaration(name, "", text) { returns = name; }

    Declaration(const Declaration&) = delete;
    Declaration& operator=(const Declaration&) = delete;

    Handle call(Border& border, const Handle* arguments) const { return call_(function_, border, arguments); }
    bool callable() const { return call_ != nullptr; }

    std::string scope, name;  // the class that a method or a property is of
    bool plain = false;  // a property or a constant
    std::vector<Parameter> parameters;
    std::string returns, operands, text;

private:
    Declaration(const char* signature, const char* operands, const char* text);

    // types: until a null. Splits the signature; throws std::logic_error where it has another number of parameters.
    void describe(const TypeName* types);

    template <typename R, typename... A>
    static Handle called(void (*function)(), Border& border, const Handle* arguments) {
        return called(reinterpret_cast<R (*)(A...)>(function), border, arguments, std::index_sequence_for<A...>{});
    }
    template <typename R, typename... A, size_t... I>
    static Handle called(R (*function)(A...), Border& border, [[maybe_unused]] const Handle* arguments,
                         std::index_sequence<I...>) {
        return Value<std::decay_t<R>>::write(border, function(argument<std::decay_t<A>>(border, I, arguments[I])...));
    }
    template <typename T>
    static decltype(auto) argument(Border& border, size_t position, Handle value) {
        border.position = position;
        return Value<T>::read(border, value);
    }

    std::string signature_;
    void (*function_)() = nullptr;
    Handle (*call_)(void (*)(), Border&, const Handle*) = nullptr;
};

// For declarations: a kernel by its constructor, one of a problem of these parts, and an object of a class.
template <typename Made, typename... Arguments>
std::shared_ptr<Kernel> kernel_by(Arguments... arguments) {
    return std::make_shared<Made>(std::move(arguments)...);
}
template <typename Made, typename Problem, typename... Parts>
std::shared_ptr<Kernel> kernel_of(Parts... parts) {
    return std::make_shared<Made>(Problem{std::move(parts)...});
}
template <typename T, typename... Parts>
T object_of(Parts... parts) {
    return T{std::move(parts)...};
}

// Returns all declarations, by class and name.
std::vector<const Declaration*> declarations();

}  // namespace dgo
