package main

import "fmt"

const (
	topic  = "ratings"
	users  = 2500
	movies = 1000
)

// rating is a message of the topic. Every one is of another pair of user and movie,
// so that relationships count rows.
type rating struct {
	User   int     `json:"userId"`
	Movie  int     `json:"movieId"`
	Rating float64 `json:"rating"`
	Title  string  `json:"title"`
	Note   string  `json:"note,omitempty"` // that nobody reads
}

func ratingOf(i int) rating {
	user, nth := i%users, i/users
	movie := (nth*37 + user) % movies
	return rating{User: user, Movie: movie, Rating: float64(i%10+1) / 2, Title: fmt.Sprintf("The Movie No. %d", movie)}
}

// enough returns an error where there are fewer ratings than rows.
func enough(rows int) error {
	if rows > users*movies {
		return fmt.Errorf("%d rows are more than the %d pairs there are", rows, users*movies)
	}
	return nil
}
