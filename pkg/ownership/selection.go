package ownership

import "strconv"

// Selection has parts of an applied configuration, by the names and indexes that lead to them: as a tree, which grows with the parts and not with the
// lengths of their paths. The zero value has none.
type Selection struct {
	// whole reports that it has all of the configuration.
	whole bool
	// parts are the selections in fields and items.
	parts map[string]*Selection
}

// Add adds the part at a path.
func (s *Selection) Add(path ...string) {
	for _, token := range path {
		s = s.at(token)
	}
	s.whole = true
}

// at returns the selection in a field or item, to add parts.
func (s *Selection) at(token string) *Selection {
	if s.parts == nil {
		s.parts = map[string]*Selection{}
	}
	if s.parts[token] == nil {
		s.parts[token] = &Selection{}
	}
	return s.parts[token]
}

// partsOf returns the selections in a field or item; one alone if it has all of it.
func partsOf(all []*Selection, token string) (parts []*Selection) {
	for _, s := range all {
		switch part := s.parts[token]; {
		case s.whole:
			return []*Selection{s}
		case part != nil && part.whole:
			return []*Selection{part}
		case part != nil:
			parts = append(parts, part)
		}
	}
	return parts
}

// Remove removes the selected parts from a configuration. Maps and lists that are empty then stay.
func (s *Selection) Remove(configuration map[string]any) { s.remove(configuration) }

// remove returns a value without the selected parts, which it changes.
func (s *Selection) remove(value any) any {
	switch at := value.(type) {
	case map[string]any:
		for name, part := range s.parts {
			if child, found := at[name]; found && part.whole {
				delete(at, name)
			} else if found {
				at[name] = part.remove(child)
			}
		}
	case []any:
		left := make([]any, 0, len(at))
		for i, item := range at {
			if part := s.parts[strconv.Itoa(i)]; part == nil {
				left = append(left, item)
			} else if !part.whole {
				left = append(left, part.remove(item))
			}
		}
		return left
	}
	return value
}
