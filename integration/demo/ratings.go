package main

import (
	"bufio"
	"fmt"
	"io"
)

// The ratings are the same in each run: users rate movies that no two of their
// ratings share, so that each of them is one relationship in the graph.
const (
	users          = 1000
	movies         = 200
	ratingsPerUser = ratings / users
)

var (
	titleStarts = []string{"The Quiet", "The Last", "A Distant", "The Broken", "Under the", "Beyond the", "The Secret", "Return to the", "A Winter", "The Golden",
		"Across the", "The Hollow", "A Second", "The Silver", "Night of the", "The Lost", "Song of the", "The Burning", "Children of the", "The Long"}
	titleEnds = []string{"Harbour", "Orchard", "Meridian", "Lighthouse", "Graph", "River", "Station", "Garden", "Road", "Mill"}
)

// rating is one message.
type rating struct {
	user, movie int64
	halves      int64 // half stars, 1 to 10
}

// ratingAt returns the i-th of the ratings. The factors share no divisor with
// the number of movies, so the movies of one user are all different.
func ratingAt(i int64) rating {
	user, round := i%users, i/users
	movie := (user*17 + round*19) % movies
	quality := 3 + movie*37%7         // 3 to 9: what people think of the movie
	taste := (user*31+movie*17)%5 - 2 // -2 to 2
	return rating{user: user + 1, movie: movie + 1, halves: min(quality+taste, 10)}
}

// line returns a rating as "graphmill produce" reads it, the movie's id as key.
func (r rating) line() string {
	title := titleStarts[(r.movie-1)/int64(len(titleEnds))] + " " + titleEnds[(r.movie-1)%int64(len(titleEnds))]
	return fmt.Sprintf(`%d:{"userId": %d, "movieId": %d, "rating": %.1f, "title": "%s"}`, r.movie, r.user, r.movie, float64(r.halves)/2, title)
}

// writeRatings writes the first n ratings, and reports every so often how many
// have been taken.
func writeRatings(w io.Writer, n int64, report func(written int64)) error {
	b := bufio.NewWriter(w)
	for i := range n {
		if _, err := b.WriteString(ratingAt(i).line() + "\n"); err != nil {
			return err
		}
		if done := i + 1; done%reportEvery == 0 || done == n {
			if err := b.Flush(); err != nil {
				return err
			}
			report(done)
		}
	}
	return nil
}
