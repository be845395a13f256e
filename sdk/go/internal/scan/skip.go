package scan

// MaxDepth is how deep objects and arrays may be nested.
const MaxDepth = 1000

// Skip reads a value of any kind, before which there may be white space, and returns
// where it ends.
func Skip(d []byte, i int) (end int, err *SyntaxError) {
	var objects [(MaxDepth + 63) / 64]uint64 // bit n: what is open at depth n is an object
	depth := 0
	for {
		// A value, or the beginning of one.
		i = Space(d, i)
		switch c := At(d, i); c {
		case '"':
			if i, _, err = String(d, i+1); err != nil {
				return 0, err
			}
			i++
		case '{', '[':
			if depth == MaxDepth {
				return 0, Fail(i, "nested more than 1,000 deep")
			}
			objects[depth/64] &^= 1 << (depth % 64)
			if c == '{' {
				objects[depth/64] |= 1 << (depth % 64)
			}
			depth++
			if i = Space(d, i+1); At(d, i) == c+2 { // '}' and ']' are two behind
				break
			}
			if c == '{' {
				if i, err = name(d, i); err != nil {
					return 0, err
				}
			}
			continue
		case 'n':
			i, err = Word(d, i, "null")
		case 't':
			i, err = Word(d, i, "true")
		case 'f':
			i, err = Word(d, i, "false")
		default:
			if c != '-' && c-'0' > 9 {
				return 0, Unexpected(d, i, "a value")
			}
			i, err = Number(d, i)
		}
		if err != nil {
			return 0, err
		}
		if i, depth, err = ends(d, i, depth, &objects); err != nil || depth == 0 {
			return i, err
		}
	}
}

// ends reads the ends of objects and arrays behind a value and, where one is still
// open, a comma, and in an object the name behind it.
func ends(d []byte, i, depth int, objects *[(MaxDepth + 63) / 64]uint64) (end, left int, err *SyntaxError) {
	for depth > 0 {
		i = Space(d, i)
		inObject := objects[(depth-1)/64]>>((depth-1)%64)&1 != 0
		switch c := At(d, i); {
		case c == '}' && inObject, c == ']' && !inObject:
			depth--
			i++
		case c == ',' && inObject:
			i, err = name(d, Space(d, i+1))
			return i, depth, err
		case c == ',':
			return i + 1, depth, nil
		case inObject:
			return 0, 0, Unexpected(d, i, "',' or '}'")
		default:
			return 0, 0, Unexpected(d, i, "',' or ']'")
		}
	}
	return i, 0, nil
}

// name reads the name of a field and its colon.
func name(d []byte, i int) (end int, err *SyntaxError) {
	if At(d, i) != '"' {
		return 0, Unexpected(d, i, "a field name in quotes")
	}
	if i, _, err = String(d, i+1); err != nil {
		return 0, err
	}
	if i = Space(d, i+1); At(d, i) != ':' {
		return 0, Unexpected(d, i, "':'")
	}
	return i + 1, nil
}
