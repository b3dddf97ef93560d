package main

import (
	"fmt"
	"strconv"
	"strings"
)

// attributes names the attributes of the context itself or of one above it. A metric has none.
func (w writer) attributes() string {
	if w.context == "metric" {
		return pick(w.generator, []string{"metadata", "metadata", "resource.attributes"})
	}
	if len(w.paths.above) > 0 && w.chance(12) {
		return pick(w.generator, w.paths.above) + ".attributes"
	}
	if w.chance(4) {
		return "cache"
	}
	if w.chance(8) {
		return w.context + ".attributes"
	}
	return "attributes"
}

// attribute names one of a kind's attributes, or of another kind on purpose.
func (w writer) attribute(keys []string) string {
	if w.wrong && w.chance(40) {
		keys = pick(w.generator, allKeys)
	}
	if w.chance(6) {
		return w.attributes() + `["missing"]`
	}
	return w.attributes() + "[" + quote(pick(w.generator, keys)) + "]"
}

func (w writer) key() string {
	if w.wrong && w.chance(10) {
		return w.any(0)
	}
	return quote(pick(w.generator, pick(w.generator, allKeys)))
}

// index is a key in brackets, never a number from a record: the Collector makes a list of as many
// values as an index says where there is nothing yet.
func (w writer) index() string {
	switch w.Intn(12) {
	case 0:
		return strconv.Itoa(w.Intn(4))
	case 1:
		return "Concat([" + quote(pick(w.generator, pick(w.generator, allKeys))) + `], "")`
	default:
		return quote(pick(w.generator, pick(w.generator, allKeys)))
	}
}

func (w writer) someMap() string {
	if w.wrong && w.chance(30) {
		return w.attribute(pick(w.generator, allKeys))
	}
	switch {
	case len(w.paths.maps) > 0 && w.chance(20):
		return pick(w.generator, w.paths.maps)
	case w.chance(20):
		return w.attribute(mapKeys)
	default:
		return w.attributes()
	}
}

func (w writer) textPath() string {
	if len(w.paths.text) > 0 && w.chance(40) {
		return pick(w.generator, w.paths.text)
	}
	return w.attribute(pick(w.generator, [][]string{textKeys, textKeys, csvKeys, digitKeys, jsonKeys}))
}

func (w writer) numberPath() string {
	if len(w.paths.number) > 0 && w.chance(50) {
		return pick(w.generator, w.paths.number)
	}
	return w.attribute(numberKeys)
}

func (w writer) doublePath() string {
	if len(w.paths.double) > 0 && w.chance(50) {
		return pick(w.generator, w.paths.double)
	}
	return w.attribute(doubleKeys)
}

func (w writer) boolPath() string {
	if len(w.paths.boolean) > 0 && w.chance(50) {
		return pick(w.generator, w.paths.boolean)
	}
	return w.attribute(boolKeys)
}

func (w writer) text(depth int) string {
	if w.wrong && w.chance(25) {
		return w.any(depth)
	}
	switch {
	case w.chance(25):
		return quote(pick(w.generator, words))
	case depth > 0 && w.chance(35):
		inner := pick(w.generator, []string{"Concat", "ConvertCase", "Substring", "SHA256", "String"})
		return w.converter(inner, depth-1)
	default:
		return w.textPath()
	}
}

func (w writer) number(depth int) string {
	if w.wrong && w.chance(15) {
		return w.any(0)
	}
	switch {
	case w.chance(35):
		return strconv.Itoa(w.Intn(200) - 60)
	case depth > 0 && w.chance(40):
		return w.converter(pick(w.generator, []string{"Int", "Len", "FNV", "UnixNano"}), depth-1)
	default:
		return w.numberPath()
	}
}

func (w writer) double() string {
	if w.chance(50) {
		return pick(w.generator, []string{"1.5", "-0.25", ".5", "3.", "2.0", "1.5e3", "1.0e-7"})
	}
	return w.doublePath()
}

// operand is a number of either kind.
func (w writer) operand(depth int) string {
	if depth > 0 && w.chance(25) {
		return pick(w.generator, []string{"", "-"}) + "(" + w.math(depth-1) + ")"
	}
	if w.chance(65) {
		return w.number(depth)
	}
	return w.double()
}

func (w writer) math(depth int) string {
	text := w.operand(depth)
	for range 1 + w.Intn(2) {
		text += " " + pick(w.generator, []string{"+", "-", "*", "/"}) + " " + w.operand(depth-1)
	}
	return text
}

func (w writer) list(depth int) string {
	if w.chance(40) {
		return w.attribute(listKeys)
	}
	values := []string{}
	for range w.Intn(4) {
		values = append(values, w.any(depth-1))
	}
	return "[" + strings.Join(values, ", ") + "]"
}

func (w writer) mapValue(depth int) string {
	if w.wrong && w.chance(20) {
		return w.any(0)
	}
	switch {
	case w.chance(30):
		return w.someMap()
	case w.chance(25):
		return "ParseJSON(" + w.attribute(jsonKeys) + ")"
	case w.chance(20):
		return "ExtractPatterns(" + w.textPath() + `, "(?P<key>[a-z]+)=(?P<value>[^ ]*)")`
	}
	entries, names := []string{}, map[string]bool{}
	for range w.Intn(4) {
		name := pick(w.generator, pick(w.generator, allKeys))
		if !names[name] {
			entries = append(entries, quote(name)+": "+w.any(depth-1))
		}
		names[name] = true
	}
	return "{" + strings.Join(entries, ", ") + "}"
}

// any is a value of any kind.
func (w writer) any(depth int) string {
	switch w.Intn(14) {
	case 0:
		return "nil"
	case 1:
		return pick(w.generator, []string{"true", "false"})
	case 2:
		return w.number(depth)
	case 3:
		return w.double()
	case 4:
		return quote(pick(w.generator, words))
	case 5:
		return pick(w.generator, []string{"0x00ff", "0x6162"})
	case 6:
		return w.attribute(bytesKeys)
	case 7:
		if depth > 0 {
			return w.list(depth)
		}
		return w.attribute(listKeys)
	case 8:
		if depth > 0 {
			return w.mapValue(depth)
		}
		return w.attribute(mapKeys) + "[" + w.index() + "]"
	case 9:
		return w.attribute(pick(w.generator, allKeys))
	case 10:
		return w.boolPath()
	case 11:
		if depth > 0 {
			name := pick(w.generator, converters)
			if name == "Time" {
				name = "UnixNano"
			}
			return w.converter(name, depth-1)
		}
		return w.textPath()
	default:
		return w.textPath()
	}
}

func (w writer) condition(depth int) string {
	switch kind := w.Intn(20); {
	case depth > 0 && kind < 5:
		joined := pick(w.generator, []string{" and ", " or "})
		return w.condition(depth-1) + joined + w.condition(depth-1)
	case depth > 0 && kind < 7:
		return "not (" + w.condition(depth-1) + ")"
	case kind < 8:
		return "not " + w.check()
	case kind < 12:
		return w.check()
	case kind < 14:
		operator := pick(w.generator, []string{"==", "!="})
		return w.attribute(pick(w.generator, allKeys)) + " " + operator + " nil"
	case kind == 14:
		return pick(w.generator, []string{"true", "false", "1 < 2", `"a" == "b"`})
	}
	operator := pick(w.generator, []string{"==", "!=", "<", "<=", ">", ">="})
	left, right := "", ""
	switch w.Intn(7) {
	case 0, 1:
		left, right = w.number(1), w.operand(1)
		if len(enums[w.context]) > 0 && w.chance(20) {
			right = pick(w.generator, enums[w.context])
		}
	case 2:
		left, right = w.text(1), w.text(0)
	case 3:
		left, right = w.any(1), w.any(1)
	case 4:
		left, right = w.doublePath(), w.operand(0)
	case 5:
		left, right = w.boolPath(), pick(w.generator, []string{"true", "false"})
	case 6:
		left, right = w.textPath(), quote(pick(w.generator, words))
	}
	return left + " " + operator + " " + right
}

// check is a converter that gives true or false.
func (w writer) check() string {
	name := pick(w.generator, []string{
		"IsMatch", "IsMatch", "IsMatch", "IsString", "IsInt", "IsMap", "IsBool", "IsDouble", "IsList",
	})
	if name == "IsMatch" {
		target := w.textPath()
		if w.chance(40) {
			target = w.any(1)
		}
		return "IsMatch(" + target + ", " + quote(pick(w.generator, patterns)) + ")"
	}
	if w.wrong && w.chance(20) {
		return name + "(" + w.any(0) + ")"
	}
	return name + "(" + w.attribute(pick(w.generator, allKeys)) + ")"
}

func quote(text string) string { return fmt.Sprintf("%q", text) }
