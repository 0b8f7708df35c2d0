package document

// PlainMembers calls member with the name and the value, as it is written, of every
// member of an object that is written plainly, as programs write it: ASCII, without
// escapes, not nested deeply. It allocates nothing and is many times as fast as a
// parser. False says that the text is written otherwise, or is no object, or that
// member was false; it does not say that the text is wrong.
func PlainMembers(text []byte, member func(name, value []byte) bool) bool {
	p := plain{text: text}
	return p.members(0, member) && p.end()
}

// PlainText is what a value that PlainMembers has found says, if that is a text.
func PlainText(value []byte) (text string, ok bool) {
	if value[0] != '"' {
		return "", false
	}
	return string(value[1 : len(value)-1]), true
}

// plain walks over plainly written JSON. Its methods are false for what is not.
type plain struct {
	text []byte
	at   int
}

// space moves to the next significant byte and returns it, 0 at the end.
func (p *plain) space() byte {
	for ; p.at < len(p.text); p.at++ {
		if c := p.text[p.at]; !isSpace(c) {
			return c
		}
	}
	return 0
}

func (p *plain) end() bool {
	p.space()
	return p.at == len(p.text)
}

func (p *plain) take(c byte) bool {
	if p.space() != c {
		return false
	}
	p.at++
	return true
}

func (p *plain) members(depth int, member func(name, value []byte) bool) bool {
	if !p.take('{') {
		return false
	}
	if p.take('}') {
		return true
	}
	for {
		p.space()
		name := p.at
		if !p.string() {
			return false
		}
		end := p.at
		if !p.take(':') {
			return false
		}
		p.space()
		value := p.at
		if !p.value(depth+1) || !member(p.text[name+1:end-1], p.text[value:p.at:p.at]) {
			return false
		}
		if !p.take(',') {
			return p.take('}')
		}
	}
}

func (p *plain) items(depth int) bool {
	if !p.take('[') {
		return false
	}
	if p.take(']') {
		return true
	}
	for p.value(depth + 1) {
		if !p.take(',') {
			return p.take(']')
		}
	}
	return false
}

func (p *plain) value(depth int) bool {
	const most = 20
	switch c := p.space(); {
	case depth > most:
		return false
	case c == '"':
		return p.string()
	case c == '{':
		return p.members(depth, func(_, _ []byte) bool { return true })
	case c == '[':
		return p.items(depth)
	case c == 't':
		return p.word("true")
	case c == 'f':
		return p.word("false")
	case c == 'n':
		return p.word("null")
	}
	return p.number()
}

func (p *plain) word(w string) bool {
	if rest := p.text[p.at:]; len(rest) < len(w) || string(rest[:len(w)]) != w {
		return false
	}
	p.at += len(w)
	return true
}

func (p *plain) string() bool {
	if p.at == len(p.text) || p.text[p.at] != '"' {
		return false
	}
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return true
		case c < ' ' || c == '\\' || c > '~':
			return false
		}
	}
	return false
}

// number takes whole numbers; those with a fraction are written otherwise.
func (p *plain) number() bool {
	if p.at < len(p.text) && p.text[p.at] == '-' {
		p.at++
	}
	from := p.at
	for p.at < len(p.text) && isDigit(p.text[p.at]) {
		p.at++
	}
	return p.at > from && (p.text[from] != '0' || p.at == from+1)
}
