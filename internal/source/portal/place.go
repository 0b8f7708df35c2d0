package portal

import "slices"

// gap is between the numbers of two products that came together, so that others
// find a place between them.
const gap = 1 << 32

// place numbers products that stand in an order, given the numbers that they
// have, 0 for none. The new numbers increase from 1 on, and as many as can be
// stay what they are.
func place(have []int64) []int64 {
	numbers := stay(have)
	last := int64(0)
	for i := 0; i < len(numbers); {
		if numbers[i] != 0 {
			last = numbers[i]
			i++
			continue
		}
		end := i
		for end < len(numbers) && numbers[end] == 0 {
			end++
		}
		step := int64(gap)
		if end < len(numbers) {
			step = (numbers[end] - last) / int64(end-i+1)
		}
		if step == 0 {
			return anew(len(have))
		}
		for ; i < end; i++ {
			last += step
			numbers[i] = last
		}
	}
	return numbers
}

// anew gives every product another number: there is no place left.
func anew(n int) []int64 {
	numbers := make([]int64, n)
	for i := range numbers {
		numbers[i] = int64(i+1) * gap
	}
	return numbers
}

// stay returns a longest increasing subsequence of what is not 0, in place, and 0
// for everything else.
func stay(have []int64) []int64 {
	out := make([]int64, len(have))
	var ends []int                   // by length-1: where the subsequence with the lowest end ends
	before := make([]int, len(have)) // what stands before in the longest that ends here
	for i, n := range have {
		if n == 0 {
			continue
		}
		length, _ := slices.BinarySearchFunc(ends, n, func(at int, n int64) int {
			if have[at] < n {
				return -1
			}
			return 1
		})
		before[i] = -1
		if length > 0 {
			before[i] = ends[length-1]
		}
		if length == len(ends) {
			ends = append(ends, i)
		} else {
			ends[length] = i
		}
	}
	if len(ends) == 0 {
		return out
	}
	for i := ends[len(ends)-1]; i >= 0; i = before[i] {
		out[i] = have[i]
	}
	return out
}
